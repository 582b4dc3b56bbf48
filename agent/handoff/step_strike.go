//go:build upgradesteps

package handoff

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// At kills the process, or panics, at a step that a line of the file BINARY.step names: "kill packed", "panic adopting". The line is gone
// then. Only tests build with the tag upgradesteps.
func At(step Step) {
	path, err := filepath.EvalSymlinks("/proc/self/exe")
	if err != nil {
		return
	}
	path += ".step"
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for _, how := range []string{"kill ", "panic "} {
		line := how + string(step) + "\n"
		if !strings.Contains(string(text), line) {
			continue
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), line, "", 1)), 0o600); err != nil {
			panic(err)
		}
		if how == "kill " {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		panic("struck at " + step)
	}
}
