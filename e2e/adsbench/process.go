package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is another role of this program in a process of its own.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	killer *time.Timer
}

// answer is a line that a child printed.
type answer struct {
	At                                int64
	Proxies, Responses, Streams       int
	First, Last, Bytes                int64
	Clients, Synced, Live, Goroutines int64
}

const childLimit = 5 * time.Minute // of its life

func start(role string, args ...any) (*child, error) {
	argv := []string{role}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, argv...)}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	c.killer = time.AfterFunc(childLimit, func() { _ = c.cmd.Process.Kill() })
	_, err = c.read()
	return c, err
}

func (c *child) read() (a answer, err error) {
	if !c.out.Scan() {
		return a, fmt.Errorf("%s ended", c.cmd.Args[1])
	}
	return a, json.Unmarshal(c.out.Bytes(), &a)
}

func (c *child) ask(words ...any) (answer, error) {
	if err := c.tell(words...); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *child) tell(words ...any) error {
	_, err := fmt.Fprintln(c.in, words...)
	return err
}

// stop closes the child's stdin, which ends it.
func (c *child) stop() {
	_ = c.in.Close()
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	kill.Stop()
	c.killer.Stop()
}

// cpu is the processor time that the child has used.
func (c *child) cpu() time.Duration {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(data), ") ")
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(words[11], 10, 64)
	system, _ := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100
}

// forgetPeak makes what is resident now the most so far.
func (c *child) forgetPeak() {
	time.Sleep(time.Second) // proxies that left are forgotten by then
	c.ask("settle")
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", c.cmd.Process.Pid), []byte("5"), 0o200) // else the peak stays
}

// memory returns resident bytes: now, and the most so far.
func (c *child) memory() (rss, peak int64) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	for line := range strings.Lines(string(data)) {
		for key, to := range map[string]*int64{"VmRSS:": &rss, "VmHWM:": &peak} {
			if value, ok := strings.CutPrefix(line, key); ok {
				kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
				*to = kilobytes << 10
			}
		}
	}
	return rss, peak
}
