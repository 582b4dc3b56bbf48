package handoff

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
)

// Files are descriptors that go along. Until Exec they have close-on-exec, so that no child gets one. The zero Files are empty.
type Files struct {
	kernel *Kernel // nil for this machine's

	mu      sync.Mutex
	numbers []int
	kept    []int            // used as they are, by their first owner or by Keep
	owned   map[int]*os.File // those of GiveSame
}

func (f *Files) system() Kernel {
	if f.kernel == nil {
		return Linux()
	}
	return *f.kernel
}

// Give adds an open file under a new descriptor.
func (f *Files) Give(file syscall.Conn) (number int, err error) {
	err = control(file, func(fd int) error {
		number, err = f.system().Duplicate(fd)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("keep a descriptor: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.numbers = append(f.numbers, number)
	return number, nil
}

// GiveSame adds an open file under the descriptor that it has, which its owner must not close.
func (f *Files) GiveSame(file *os.File) (number int, err error) {
	err = control(file, func(fd int) error {
		number = fd
		return nil
	})
	if err != nil {
		return -1, fmt.Errorf("keep a descriptor: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.numbers, f.kept = append(f.numbers, number), append(f.kept, number)
	if f.owned == nil {
		f.owned = map[int]*os.File{}
	}
	f.owned[number] = file
	return number, nil
}

func control(file syscall.Conn, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// Take returns a further descriptor of a file that was given.
func (f *Files) Take(number int, name string) (*os.File, error) {
	if err := f.has(number); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fd, err := f.system().Duplicate(number)
	if err != nil {
		return nil, fmt.Errorf("%s: descriptor %d: %w", name, number, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Keep returns a file that was given, with the descriptor under which it was.
func (f *Files) Keep(number int, name string) (*os.File, error) {
	if err := f.has(number); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.owned[number]; file != nil {
		return file, nil
	}
	f.kept = append(f.kept, number)
	if err := f.system().Inherit(number, false); err != nil {
		return nil, fmt.Errorf("%s: descriptor %d: %w", name, number, err)
	}
	return os.NewFile(uintptr(number), name), nil
}

func (f *Files) has(number int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.numbers, number) {
		return fmt.Errorf("descriptor %d was not handed over", number)
	}
	return nil
}

// inheritable sets whether a program that replaces this one has the descriptors. One that is inherited by children anyway stays so.
func (f *Files) inheritable(yes bool) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.numbers {
		if !yes && slices.Contains(f.kept, fd) {
			continue
		}
		if failed := f.system().Inherit(fd, yes); failed != nil {
			err = errors.Join(err, fmt.Errorf("descriptor %d: %w", fd, failed))
		}
	}
	return err
}

// close closes every descriptor that is not in use as it is.
func (f *Files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.numbers {
		if !slices.Contains(f.kept, fd) {
			_ = f.system().Close(fd)
		}
	}
	f.numbers, f.kept = nil, nil
}
