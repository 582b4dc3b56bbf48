package handoff

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

// handled are the signals that the agent handles. From Hold on those that no other thread has taken are for the next image: exec collects
// those that came, and hands them over. Go's runtime unblocks those that end a program when it starts, and ends the process at one that is
// not handled yet: so one of these that comes between execve and the handlers of the next image, within some milliseconds, ends the agent,
// and Envoy with it. SIGUSR2 and SIGPIPE stay blocked until they are handled.
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

// Hold blocks the handled signals in its thread, which is to execute the next image, or ends that. The next image begins with the mask of this
// thread; the other threads go on handling signals until execve ends them. Go can block none in those: it reaches them by a handler, whose
// return restores their masks.
func Hold(yes bool) error {
	how, s := unix.SIG_UNBLOCK, set()
	if yes {
		how = unix.SIG_BLOCK
	}
	return os.NewSyscallError("rt_sigprocmask", unix.PthreadSigmask(how, &s, nil))
}

// collect takes the signals that have come since Hold.
func (k Kernel) collect() (signals []syscall.Signal) {
	for range len(handled) {
		signal, ok := k.Arrived()
		if !ok {
			break
		}
		signals = append(signals, signal)
	}
	return signals
}

// mostAlike is how many signals of a number go along: the second one of those that stop hurries.
const mostAlike = 2

// either returns the signals of two lists. Those of the first one may be in the second one too.
func either(first, second []syscall.Signal) (all []syscall.Signal) {
	for _, signal := range handled {
		for range max(count(first, signal), count(second, signal)) {
			all = append(all, signal)
		}
	}
	return all
}

func count(signals []syscall.Signal, of syscall.Signal) (n int) {
	for _, s := range signals {
		if s == of {
			n++
		}
	}
	return n
}

// written is a list of signals as read reads it.
func written(signals []syscall.Signal) string {
	var numbers []string
	for _, signal := range handled {
		for range min(count(signals, signal), mostAlike) {
			numbers = append(numbers, strconv.Itoa(int(signal)))
		}
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
		if s := syscall.Signal(n); err != nil || !slices.Contains(handled[:], s) || count(signals, s) == mostAlike {
			return nil, fmt.Errorf("signals %.50q, want some of %v, each at most %d times", text, written(handled[:]), mostAlike)
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

// exec replaces the program of this process by an image, which gets what is handed over. It runs on the thread that forked the children,
// after Hold; it returns only if it fails, and then all is as before.
// came returns signals that have come for the next image; it is called last. The image after has self for the image before; nil for none.
func (h *Handed) exec(i Images, image, self *os.File, came func() []syscall.Signal) error {
	state, err := i.Kernel.Seal(h.text)
	if err != nil {
		return err
	}
	defer func() { _ = i.Kernel.Close(state) }()
	At(Sealed)
	// The reason has no NUL, and a length that fits.
	reason := strings.ReplaceAll(fmt.Sprintf("%.4000s", h.Failure), "\x00", "")
	previous := ""
	along := &Files{kernel: &i.Kernel, numbers: []int{state}}
	if self != nil {
		previous = fmt.Sprint(self.Fd())
		along.numbers = append(along.numbers, int(self.Fd()))
	}
	path := fmt.Sprintf("/proc/self/fd/%d", image.Fd())
	i.Fork(func() {
		err = errors.Join(along.inheritable(true), h.Files.inheritable(true))
		if err == nil {
			first := came()
			late := i.Kernel.collect()
			value := fmt.Sprintf("%d,%s,%s,%s", state, previous, written(append(first, late...)), reason)
			err = i.Kernel.Execute(path, i.Argv, append(append([]string{}, i.Environ...), Variable+"="+value))
			for _, s := range late { // they are for this image after all
				err = errors.Join(err, i.Kernel.Raise(s))
			}
		}
		err = errors.Join(err, along.inheritable(false), h.Files.inheritable(false))
	})
	return fmt.Errorf("execute %s: %w", image.Name(), err)
}

// back returns to the image before, with why this one cannot take over. It returns an error if there is none, or if that fails.
func (h *Handed) back(i Images, why error) error {
	if h.previous == nil || h.text == nil {
		return errors.New("there is no image to return to")
	}
	h.Failure = why.Error()
	At(Back)
	return h.exec(i, h.previous, nil, func() []syscall.Signal { return either(h.Signals, i.Came()) })
}

// setName sets the name of the calling thread, which is the name of the process if the thread is the main one. After an execve of a
// descriptor's path it is the descriptor's number.
func setName(name *byte) error {
	return unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
}
