package envoy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// An Envoy that crashes while the disk is full or read-only is started again all the same: its bootstrap is then in
// memory, and its sockets, which take no space, are in a directory where sockets can be made.

// inherited is the first descriptor of a child after the standard ones: see process.fork.
const inherited = 3

// keepInMemory puts the bootstrap into memory, and Envoy reads it from a descriptor that it inherits after the tie's.
// Envoy reads a file without an ending as JSON, so YAML is converted.
func (f *files) keepInMemory(bootstrap string) error {
	if f.yaml {
		text, err := yamlAsJSON(bootstrap)
		if err != nil {
			return fmt.Errorf("keep the bootstrap in memory: %w", err)
		}
		bootstrap, f.yaml = text, false
	}
	fd, err := unix.MemfdCreate("envoy-bootstrap", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("keep the bootstrap in memory: %w", err)
	}
	f.memory = os.NewFile(uintptr(fd), "envoy-bootstrap")
	if _, err := f.memory.WriteString(f.withAdmin(bootstrap)); err != nil {
		return fmt.Errorf("keep the bootstrap in memory: %w", errors.Join(err, f.memory.Close()))
	}
	f.bootstrap = fmt.Sprintf("/dev/fd/%d", inherited+1) // not below /proc, where Envoy opens no file
	return nil
}

func yamlAsJSON(text string) (string, error) {
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return "", err
	}
	converted, err := json.Marshal(value)
	return string(converted), err
}

// Room returns a directory in which sockets can be made: the slot, else a temporary directory elsewhere, which is
// removed with the slot.
func (s *Slot) Room() (room, error) {
	cause := bindable(s.dir)
	if cause == nil {
		return room{s.dir, s.token}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuge != "" {
		return room{s.refuge, s.token}, nil
	}
	for _, parent := range []string{os.TempDir(), hotrestart.SharedMemoryDir, "/run"} {
		dir, err := os.MkdirTemp(parent, "pilotlight-") // 0700
		if err != nil {
			continue
		}
		if bindable(dir) != nil {
			os.Remove(dir)
			continue
		}
		s.refuge, s.made = dir, append([]string{dir}, s.made...)
		s.log.Warn("sockets are in another directory", "dir", dir, "err", cause)
		return room{dir, s.token}, nil
	}
	return room{}, cause
}

// bindable returns nil if a socket can be made in a directory.
func bindable(dir string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	path := filepath.Join(dir, ".envoy-0") // after a crash the slot's next owner removes it
	os.Remove(path)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return &fs.PathError{Op: "bind", Path: path, Err: err}
	}
	return os.Remove(path)
}
