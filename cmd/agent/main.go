package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/internal/logger"
)

// The main goroutine keeps the process's main thread, which ends with the process and not before: Envoy's
// parent-death signal is tied to the thread that forked it.
func init() { runtime.LockOSThread() }

func main() {
	handed := os.Getenv(handoff.Variable)
	_ = os.Unsetenv(handoff.Variable) // Envoy has no use for it
	if handed != "" {
		handoff.At(handoff.Started)
	}
	forks := make(chan func())
	code := make(chan int)
	go func() {
		code <- execute(context.Background(), command{
			args:    os.Args[1:],
			environ: os.Environ(),
			stdout:  os.Stdout,
			stderr:  os.Stderr,
			handed:  handed,
			fork:    func(f func()) { forked := make(chan struct{}); forks <- func() { f(); close(forked) }; <-forked },
		})
	}()
	for {
		select {
		case f := <-forks:
			f()
		case c := <-code:
			os.Exit(c)
		}
	}
}

// signalled returns a context that stop or the first SIGTERM, SIGINT or SIGQUIT ends, a channel that receives each later
// SIGTERM or SIGINT, and one that receives each SIGQUIT. A signal from the terminal that was ignored when the agent was
// started, as a shell's & does, stays ignored.
//
// settled waits until each signal that has come is dealt with, and returns what the context and the channels have of them: those are for
// another image of the agent.
func signalled(ctx context.Context) (_ context.Context, stop func(), hurries, quits <-chan struct{}, settled func() []syscall.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	signals, hurry, quit := make(chan os.Signal, 4), make(chan struct{}, 4), make(chan struct{}, 4)
	signal.Notify(signals, syscall.SIGTERM)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		for first := true; ; first = false {
			switch s := <-signals; {
			case s == syscall.SIGQUIT:
				quit <- struct{}{}
			case !first:
				hurry <- struct{}{}
			}
			cancel()
		}
	}()
	return ctx, cancel, hurry, quit, func() (out []syscall.Signal) {
		probe := make(chan os.Signal, 1)
		signal.Notify(probe, syscall.SIGTERM)
		signal.Stop(probe) // waits until what has come is delivered
		for len(signals) > 0 {
			runtime.Gosched()
		}
		switch {
		case len(quit) > 0:
			return []syscall.Signal{syscall.SIGQUIT}
		case ctx.Err() != nil:
			return []syscall.Signal{syscall.SIGTERM}
		}
		return nil
	}
}

// survivePipes makes a write to a pipe without a reader return an error instead of ending the agent. A child process
// has the signal's default action.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// hangUps returns a channel that receives each SIGHUP, on which the agent reads its files again, as services do. A
// SIGHUP that was ignored when the agent was started, as nohup does, stays ignored.
func hangUps() <-chan os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}

// upgradeSignals returns a channel that receives each SIGUSR2, on which the agent is replaced by another image of itself.
func upgradeSignals() <-chan os.Signal {
	upgrades := make(chan os.Signal, 1)
	signal.Notify(upgrades, syscall.SIGUSR2)
	return upgrades
}

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

// newLogger returns a logger. level and format must be values that the settings allow. w must not block, since code
// that logs must not wait for a reader.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	return logger.New(w, level, format, levelWord)
}

// levelWord replaces levels by their names, also Envoy's two that slog does not have.
func levelWord(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 || a.Key != slog.LevelKey {
		return a
	}
	if level, ok := a.Value.Any().(slog.Level); ok {
		return slog.String(slog.LevelKey, envoy.LevelName(level))
	}
	return a
}

// dropped returns a function that logs how many lines of a stream were dropped, once the stream flows again.
func dropped(log *slog.Logger, stream string) func(int64) {
	return func(lines int64) {
		log.Warn("lines dropped: nobody read them", "stream", stream, "lines", lines)
	}
}
