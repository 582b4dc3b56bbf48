package envoy

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Restore makes the slot's directory again if it was removed or moved, as by a cleaner of /run, and its lock file with the record. Where paths
// lead through a descriptor, the new directory gets its number: the next Envoys inherit that.
func (s *Slot) Restore() error {
	if err := s.restoreDir(); err != nil {
		return err
	}
	return s.Renew()
}

func (s *Slot) restoreDir() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base != nil {
		if err := replaceMoved(s.base, s.base.Name(), unix.O_CLOEXEC, func() (*os.File, error) { return remakeDir(s.base.Name()) }); err != nil {
			return err
		}
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(s.name), privatePrefix))
		if err != nil {
			return err
		}
		return replaceMoved(s.opened, s.name, 0, func() (*os.File, error) { return openPrivate(s.base, number, true) })
	}
	if s.opened != nil {
		return replaceMoved(s.opened, s.name, 0, func() (*os.File, error) { return remakeDir(s.name) })
	}
	_, err := makeDir(s.name)
	return err
}

func remakeDir(path string) (*os.File, error) {
	dir, _, err := openOwn(path)
	return dir, err
}

// replaceMoved has the descriptor of a directory lead to the one at its path, if that is another or none: open makes or opens it.
func replaceMoved(dir *os.File, path string, flags int, open func() (*os.File, error)) error {
	held, err := dir.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Lstat(path); err == nil && os.SameFile(held, named) {
		return nil
	}
	again, err := open()
	if err != nil {
		return err
	}
	defer again.Close()
	return unix.Dup3(int(again.Fd()), int(dir.Fd()), flags)
}
