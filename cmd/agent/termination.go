package main

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// terminationLog is the file in which Kubernetes looks for why a container ended; `kubectl describe` shows its text. It
// exists only in a container.
const terminationLog = "/dev/termination-log"

const longestMessage = 4096 // bytes that Kubernetes reads

// leave writes why the agent ends into an existing file. Nothing depends on it, so a failure has no effect.
func leave(path string, err error, unready string) {
	text := ""
	switch {
	case err != nil:
		text = err.Error()
	case unready != "":
		text = "stopped before it was ready: " + unready
	}
	info, statErr := os.Lstat(path)
	if text == "" || statErr != nil || !info.Mode().IsRegular() {
		return
	}
	file, openErr := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if openErr != nil {
		return
	}
	defer file.Close()
	_, _ = file.WriteString(strings.ToValidUTF8(text[:min(len(text), longestMessage)], ""))
}
