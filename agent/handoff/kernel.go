package handoff

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is what an upgrade asks of the kernel. With another one a whole upgrade runs in memory.
type Kernel struct {
	Duplicate func(fd int) (int, error)                       // the new descriptor has close-on-exec
	Inherit   func(fd int, yes bool) error                    // whether a program that replaces this one has a descriptor
	Close     func(fd int) error                              // of a descriptor
	Seal      func(text []byte) (fd int, err error)           // puts a text into memory that no process can change any more
	Unseal    func(fd int) ([]byte, error)                    // reads such a memory
	Hold      func(yes bool) error                            // see Hold
	Arrived   func() (signal syscall.Signal, ok bool)         // takes a signal that has come since Hold
	Raise     func(signal syscall.Signal) error               // to this process
	Arrive    func(fork func(func()), program string) error   // see Arrive
	Self      func() (*os.File, error)                        // opens the running program
	Execute   func(path string, argv, environ []string) error // returns only if it fails
}

// Linux is the kernel of this machine.
func Linux() Kernel {
	return Kernel{
		Duplicate: func(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) },
		Inherit:   inherit,
		Close:     unix.Close,
		Seal:      seal,
		Unseal:    unseal,
		Hold:      Hold,
		Arrived:   arrived,
		Raise:     func(s syscall.Signal) error { return syscall.Kill(os.Getpid(), s) },
		Arrive:    Arrive,
		Self:      func() (*os.File, error) { return os.Open("/proc/self/exe") },
		Execute:   unix.Exec,
	}
}

func inherit(fd int, yes bool) error {
	flag := unix.FD_CLOEXEC
	if yes {
		flag = 0
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flag)
	return err
}

// arrived must run on a thread that blocks the signals.
func arrived() (syscall.Signal, bool) {
	s := set()
	number, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&s)), 0, uintptr(unsafe.Pointer(&unix.Timespec{})),
		unsafe.Sizeof(s.Val[0]), 0, 0)
	return syscall.Signal(number), failed == 0 // EAGAIN: there is none
}

const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func seal(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("agent-state", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	for rest := text; err == nil && len(rest) > 0; {
		var n int
		if n, err = unix.Write(fd, rest); err == unix.EINTR {
			err = nil
		}
		rest = rest[max(0, n):]
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return -1, fmt.Errorf("keep the agent's state in memory: %w", err)
	}
	return fd, nil
}

func unseal(fd int) ([]byte, error) {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return nil, fmt.Errorf("it is no sealed state (seals %x, %w)", got, errors.Join(err, os.ErrInvalid))
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil || info.Size > longest {
		return nil, errors.Join(err, fmt.Errorf("a state of %d bytes, want at most %d", info.Size, longest))
	}
	return io.ReadAll(io.NewSectionReader(memory(fd), 0, longest))
}

// memory reads a descriptor.
type memory int

func (m memory) ReadAt(p []byte, at int64) (int, error) {
	n, err := unix.Pread(int(m), p, at)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(0, n), err
}
