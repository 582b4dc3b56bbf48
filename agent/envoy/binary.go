package envoy

import (
	"fmt"
	"os"
	"syscall"
)

// Fingerprint tells a file from another that has replaced it. The contents of a binary of 100 MB are not worth reading for
// that.
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

// executable is an Envoy that is held open: it can be started again when its path has come to lead to something else.
type executable struct {
	file  *os.File
	print string
}

// openExecutable returns nil for what cannot be opened; to start it will tell why.
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

// path leads to the file itself. A script's interpreter, which is another process, opens it as well.
func (e *executable) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), e.file.Fd()) }

// choose returns what to start for a configuration: the binary of today, but where that is not what the configuration is
// for, the last one that has served with it.
func (p *Proxy) choose(c *process) string {
	now, want := openExecutable(p.Binary), c.launch.Config.Binary
	if now == nil || now.print != want {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.good != nil && p.good.print == want {
			if now != nil {
				now.file.Close()
			}
			p.Log.Warn("start the Envoy that served last, for the binary has changed since", "epoch", c.launch.Epoch, "binary", p.Binary)
			return p.good.path()
		}
	}
	c.executable = now
	return p.Binary
}

// served keeps open what a process has proven to serve.
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

// drop closes what a process has not proven.
func (c *process) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.executable != nil {
		c.executable.file.Close()
	}
}
