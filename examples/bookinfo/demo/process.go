package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a child that was started, and its log.
type process struct {
	spec
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the child is gone and reaped; err is set by then
	err  error
}

// start runs s with its output in run/name.log and sends it to ended when it is gone. The child has a process group of
// its own, so that a terminal's Ctrl-C reaches the demo only, and gets SIGTERM should the demo be killed.
func start(s spec, run string, ended chan<- *process) (*process, error) {
	p := &process{spec: s, log: filepath.Join(run, s.name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, s.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
		ended <- p
	}()
	return p, nil
}

// stop ends the processes together: SIGTERM, then SIGKILL for those that outstay grace. It returns when all are reaped
// and names those that had to be killed.
func stop(processes []*process, grace time.Duration) (killed []string) {
	for _, p := range processes {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when it is gone, which is what we want
	}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	expired := false
	for _, p := range processes {
		if !expired {
			select {
			case <-p.done:
				continue
			case <-timeout.C:
				expired = true
			}
		}
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill()
			<-p.done
			killed = append(killed, p.name)
		}
	}
	return killed
}

// explain says how the process ended, with the last lines that it wrote.
func (p *process) explain() error {
	const lines = 15
	text, err := os.ReadFile(p.log)
	if err != nil {
		text = []byte(err.Error())
	}
	last := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	end := bytes.Join(last[max(0, len(last)-lines):], []byte("\n"))
	return fmt.Errorf("%s ended by itself: %v; the end of %s:\n%s", p.name, p.cmd.ProcessState, p.log, end)
}
