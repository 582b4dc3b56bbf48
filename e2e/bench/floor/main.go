package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	child := exec.Command(os.Args[1], os.Args[2:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
	fmt.Printf("{\"time\":%q,\"msg\":\"Envoy started\"}\n", time.Now().Format(time.RFC3339Nano))
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	_ = child.Wait()
	os.Exit(child.ProcessState.ExitCode())
}
