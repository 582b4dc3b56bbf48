package envoy

import (
	"fmt"
	"os"
	"syscall"
)

// Fingerprint distinguishes a file from another one that has replaced it. It does not read the contents, which are 100
// MB for a binary.
func Fingerprint(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fingerprint(info), nil
}

func fingerprint(info os.FileInfo) string {
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%d-%d-%d", inode, info.Size(), info.ModTime().UnixNano())
}

// executable is an Envoy binary that is held open: it can be started again after another file has replaced it at its
// path.
type executable struct {
	file  *os.File
	print string
}

// openExecutable returns nil for a file that cannot be opened; an attempt to start it will return the reason.
func openExecutable(path string) *executable {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil
	}
	return &executable{file, fingerprint(info)}
}

// path returns a path to the open file, in a form that another process can open too, such as the interpreter of a
// script.
func (e *executable) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), e.file.Fd()) }

// choose returns the path of the binary to start for a configuration: the current one, or if that is not the
// configuration's binary, the last one that has served with it.
func (p *Proxy) choose(c *process) string {
	now, want := openExecutable(p.Binary), c.launch.Config.Binary
	if now == nil || now.print != want {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.good != nil && p.good.print == want {
			if now != nil {
				now.file.Close()
			}
			p.Log.Warn("the Envoy that served last is started: the binary has changed since", "epoch", c.launch.Epoch, "binary", p.Binary)
			return p.good.path()
		}
	}
	c.executable = now
	return p.Binary
}

// served keeps a process's binary open, since the process has served with it.
func (p *Proxy) served(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.executable != nil && (p.good == nil || p.good.print != c.executable.print) {
		if p.good != nil {
			p.good.file.Close()
		}
		p.good, c.executable = c.executable, nil
	}
}

// drop closes the binary of a process that has not served.
func (c *process) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.executable != nil {
		c.executable.file.Close()
	}
}
