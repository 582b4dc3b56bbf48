package upgrade

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handled are the signals that the agent handles. From Hold on they are for the next image: Exec collects those that come, and
// hands them over. Go's runtime unblocks them when it starts, and ends the process at one that is not handled yet: so one that comes
// between execve and the handlers of the next image, within some milliseconds, ends the agent, and Envoy with it.
var handled = [...]syscall.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR2,
}

func set() (s unix.Sigset_t) {
	for _, number := range handled {
		s.Val[(number-1)/64] |= 1 << ((number - 1) % 64)
	}
	return s
}

// Able returns an error if this image can never be replaced: Hold needs all threads, and Go's runtime does not reach those of C.
func Able() error {
	if _, _, failed := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); failed != 0 {
		return errors.New("this agent was built with cgo, and cannot hold signals for another image: build it with CGO_ENABLED=0, and restart it")
	}
	return nil
}

// Hold blocks the handled signals in every thread, or ends that: a signal that comes from now on is for the next image.
func Hold(yes bool) error {
	how, s := uintptr(unix.SIG_UNBLOCK), set()
	if yes {
		how = unix.SIG_BLOCK
	}
	_, _, failed := syscall.AllThreadsSyscall6(unix.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&s)), 0, unsafe.Sizeof(s.Val[0]), 0, 0)
	if failed != 0 {
		return os.NewSyscallError("rt_sigprocmask", failed)
	}
	return nil
}

// collect adds the signals that have come since Hold. It must run on a thread that blocks them.
func collect(signals []syscall.Signal) []syscall.Signal {
	s := set()
	for range len(handled) {
		number, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&s)), 0, uintptr(unsafe.Pointer(&unix.Timespec{})),
			unsafe.Sizeof(s.Val[0]), 0, 0)
		if failed != 0 {
			break // EAGAIN: there is none
		}
		signals = append(signals, syscall.Signal(number))
	}
	return signals
}

// written is a list of signals as read reads it.
func written(signals []syscall.Signal) string {
	var numbers []string
	for _, s := range signals {
		numbers = append(numbers, strconv.Itoa(int(s)))
	}
	return strings.Join(numbers, "+")
}

// read parses a list of signals that the agent handles.
func read(text string) (signals []syscall.Signal, err error) {
	if text == "" {
		return nil, nil
	}
	for number := range strings.SplitSeq(text, "+") {
		n, err := strconv.Atoi(number)
		if err != nil || !slices.Contains(handled[:], syscall.Signal(n)) || len(signals) == len(handled) {
			return nil, fmt.Errorf("signals %.50q, want some of %v", text, written(handled[:]))
		}
		signals = append(signals, syscall.Signal(n))
	}
	return signals, nil
}

// Arrive ends the blocking of signals on the thread that forks, and gives the process the name of its program. The signals must be handled
// by then. fork runs its argument on that thread.
func Arrive(fork func(func()), program string) (err error) {
	fork(func() {
		s := set()
		err = unix.PthreadSigmask(unix.SIG_UNBLOCK, &s, nil)
		if name, ok := unix.BytePtrFromString(program[strings.LastIndexByte(program, '/')+1:]); ok == nil {
			_ = setName(name)
		}
	})
	return err
}

// Exec replaces the program of this process by an image, which gets what is handed over. It must run on the thread that forked
// the children, after Hold; it returns only if it fails, and then all is as before.
// signals returns those that have come for the next image; it is called last. The image after has self for the image before.
func (h *Handed) Exec(fork func(func()), image, self *os.File, signals func() []syscall.Signal, argv, environ []string) error {
	state, err := seal(h.text)
	if err != nil {
		return err
	}
	defer state.Close()
	At(Sealed)
	// The reason has no NUL, and a length that fits.
	reason := strings.ReplaceAll(fmt.Sprintf("%.4000s", h.Failure), "\x00", "")
	previous := ""
	along := &Files{numbers: []int{int(state.Fd())}, kept: nil}
	if self != nil {
		previous = fmt.Sprint(self.Fd())
		along.numbers = append(along.numbers, int(self.Fd()))
	}
	path := fmt.Sprintf("/proc/self/fd/%d", image.Fd())
	fork(func() {
		err = errors.Join(along.inheritable(true), h.Files.inheritable(true))
		if err == nil {
			value := fmt.Sprintf("%d,%s,%s,%s", state.Fd(), previous, written(collect(signals())), reason)
			environ = append(append([]string{}, environ...), Variable+"="+value)
			err = unix.Exec(path, argv, environ)
		}
		err = errors.Join(err, along.inheritable(false), h.Files.inheritable(false))
	})
	return fmt.Errorf("execute %s: %w", image.Name(), err)
}

// Back returns to the image before, with why this one cannot take over. It returns an error if there is none, or if that fails.
func (h *Handed) Back(fork func(func()), why error, argv, environ []string) error {
	if h.previous == nil || h.text == nil {
		return errors.New("there is no image to return to")
	}
	h.Failure = why.Error()
	At(Back)
	return h.Exec(fork, h.previous, nil, func() []syscall.Signal { return h.Signals }, argv, environ)
}
