package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// Proxy runs epochs of the Envoy at Binary. It implements agent.Proxy.
type Proxy struct {
	Binary    string
	Dir       string                          // configPath: bootstraps and admin sockets
	Bootstrap func(epoch int) ([]byte, error) // its admin must be AdminSocket(Dir, epoch)
	Options   Options
	Output    io.Writer // Envoy's stdout and stderr, as they come
	Log       *slog.Logger

	// Fork runs its argument on a thread that lives as long as the agent: a parent-death signal comes when the
	// forking *thread* ends, and Go ends threads.
	Fork func(func())

	newest atomic.Pointer[Admin]
}

// Admin returns the admin of the newest epoch that runs, nil when none does.
func (p *Proxy) Admin() *Admin { return p.newest.Load() }

// outputDelay bounds the wait for output after Envoy's end, for a descendant of it may hold the pipe.
const outputDelay = time.Second

// Run implements agent.Proxy.
func (p *Proxy) Run(epoch int, abortCh <-chan syscall.Signal, live func()) agent.Exit {
	files := filesOf(p.Dir, epoch)
	defer func() {
		if err := files.remove(); err != nil {
			p.Log.Warn("remove files of epoch", "epoch", epoch, "error", err)
		}
	}()
	if err := p.write(files.bootstrap, epoch); err != nil {
		return notStarted(err)
	}
	output := &lastWords{next: p.Output}
	cmd := p.command(files.bootstrap, output)
	began := time.Now()
	var err error
	p.Fork(func() { err = cmd.Start() })
	if err != nil {
		return notStarted(fmt.Errorf("start %s: %w", p.Binary, err))
	}
	p.Log.Info("Envoy started", "epoch", epoch, "pid", cmd.Process.Pid, "fork", time.Since(began))

	admin := NewAdmin(files.admin)
	p.newest.Store(admin)
	defer p.newest.CompareAndSwap(admin, nil)
	p.supervise(cmd, admin, abortCh, live)
	return exitOf(cmd, output)
}

func (p *Proxy) write(path string, epoch int) error {
	data, err := p.Bootstrap(epoch)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

func (p *Proxy) command(bootstrap string, output io.Writer) *exec.Cmd {
	cmd := exec.Command(p.Binary, argv(bootstrap, p.Options)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true, // a signal to the agent's group must not end Envoy before it has drained
		Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

// supervise passes signals on and watches for readiness until the process is reaped.
func (p *Proxy) supervise(cmd *exec.Cmd, admin *Admin, abortCh <-chan syscall.Signal, live func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		if admin.awaitReady(ctx) {
			live()
		}
	})
	reaped := make(chan struct{})
	go func() {
		cmd.Wait() // the status is read from ProcessState
		close(reaped)
	}()
	for {
		select {
		case sig := <-abortCh:
			cmd.Process.Signal(sig) // a process that has just ended needs none
		case <-reaped:
			cancel()
			watching.Wait()
			return
		}
	}
}

func notStarted(err error) agent.Exit { return agent.Exit{Code: -1, Reason: err.Error()} }

func exitOf(cmd *exec.Cmd, output *lastWords) agent.Exit {
	exit := agent.Exit{Code: cmd.ProcessState.ExitCode()}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	if exit.Signal != syscall.SIGKILL && exit.Signal != syscall.SIGTERM { // somebody else's will: Envoy had no reason
		exit.Reason = output.reason()
	}
	return exit
}

var _ agent.Proxy = (*Proxy)(nil)

// errNotReady is what Ready returns while Envoy answers, but does not serve yet.
var errNotReady = errors.New("not ready")
