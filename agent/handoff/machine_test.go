package handoff

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is a kernel in memory, with one process: images of an agent that replace each other. What its agent does is chosen by a script.
type machine struct {
	script []byte
	table  map[int]*entry // open descriptors
	last   int            // descriptor
	held   []syscall.Signal
	holds  bool
	sent   int
	heard  int              // signals that an image has got which has taken over
	came   []syscall.Signal // to the running image
	went   []syscall.Signal // of these, to the next one
	taken  []syscall.Signal // of those that were held, likewise
	image  int              // that runs

	value    string // of Variable
	replaced bool   // the running image has been: what it still does counts no more
	upgrades int
	returned int // images to the one before
	stayed   int // images, since no other was executed
	faults   []string
}

// entry is an open descriptor.
type entry struct {
	text    []byte // of a sealed memory
	image   int    // of a program; 0 for none
	file    string // of a file of the agent
	inherit bool
}

// lowest is a descriptor above all that the test itself may open.
const lowest = 1 << 19

func (m *machine) choose(n int) int {
	if len(m.script) == 0 {
		return 0
	}
	choice := int(m.script[0]) % n
	m.script = m.script[1:]
	return choice
}

func (m *machine) fault(format string, values ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, values...))
}

func (m *machine) open(e entry) int {
	m.last++
	m.table[m.last] = &e
	return m.last
}

var errBroken = errors.New("the kernel refuses")

// replacement ends the running image: execve does not return.
type replacement struct{}

func (m *machine) kernel() Kernel {
	find := func(fd int) (*entry, error) {
		if e := m.table[fd]; e != nil {
			return e, nil
		}
		return nil, syscall.EBADF
	}
	return Kernel{
		Duplicate: func(fd int) (int, error) {
			e, err := find(fd)
			if err != nil {
				return -1, err
			}
			same := *e
			same.inherit = false
			return m.open(same), nil
		},
		Inherit: func(fd int, yes bool) error {
			if m.replaced {
				return nil
			}
			e, err := find(fd)
			if err == nil {
				e.inherit = yes
			}
			return err
		},
		Close: func(fd int) error {
			if m.replaced {
				return nil
			}
			_, err := find(fd)
			delete(m.table, fd)
			return err
		},
		Seal: func(text []byte) (int, error) {
			if m.choose(8) == 7 {
				return -1, errBroken
			}
			return m.open(entry{text: slices.Clone(text)}), nil
		},
		Unseal: func(fd int) ([]byte, error) {
			e, err := find(fd)
			if err != nil || e.text == nil {
				return nil, errors.Join(err, errors.New("no sealed state"))
			}
			return e.text, nil
		},
		Hold: func(yes bool) error {
			if m.replaced {
				return nil
			}
			if yes && m.choose(8) == 7 {
				return errBroken
			}
			m.holds = yes
			if !yes {
				m.came, m.held = append(m.came, m.held...), nil
			}
			return nil
		},
		Arrived: func() (syscall.Signal, bool) {
			m.strike()
			if len(m.held) == 0 {
				return 0, false
			}
			signal := m.held[0]
			m.held, m.taken = m.held[1:], append(m.taken, signal)
			return signal, true
		},
		Raise: func(s syscall.Signal) error {
			if m.holds {
				m.held = append(m.held, s)
			} else {
				m.came = append(m.came, s)
			}
			return nil
		},
		Arrive:  func(func(func()), string) error { return nil },
		Self:    func() (*os.File, error) { return m.program(m.image), nil },
		Execute: m.execute,
	}
}

// strike sends a signal, or none. Of each at most two wait.
func (m *machine) strike() {
	s := handled[m.choose(len(handled))]
	switch {
	case m.choose(4) != 1 || slices.Contains(m.held, s) || count(m.came, s)+count(m.held, s)+count(m.went, s)+count(m.taken, s) >= mostAlike:
	case m.holds:
		m.sent++
		m.held = append(m.held, s)
	default:
		m.sent++
		m.came = append(m.came, s)
	}
}

func (m *machine) program(image int) *os.File {
	return os.NewFile(uintptr(m.open(entry{image: image})), fmt.Sprint("image ", image))
}

func (m *machine) execute(path string, _, environ []string) error {
	m.taken = nil
	fd, _ := strconv.Atoi(path[strings.LastIndexByte(path, '/')+1:])
	e := m.table[fd]
	if e == nil || e.image == 0 || m.choose(8) == 7 {
		m.came, m.went = append(m.came, m.went...), nil // this image goes on, and has them still
		return errBroken
	}
	m.went = nil
	for fd, e := range m.table {
		if !e.inherit {
			delete(m.table, fd)
		}
	}
	m.value = strings.TrimPrefix(environ[len(environ)-1], Variable+"=")
	m.image, m.holds, m.replaced = e.image, false, true
	panic(replacement{})
}

// descriptor is an open file of an agent.
type number int

func (n number) SyscallConn() (syscall.RawConn, error) { return n, nil }
func (n number) Control(f func(uintptr)) error         { f(uintptr(n)); return nil }
func (n number) Read(func(uintptr) (done bool)) error  { return syscall.ENOTSUP }
func (n number) Write(func(uintptr) (done bool)) error { return syscall.ENOTSUP }

// images is the running image of the agent.
func (m *machine) images() Images {
	return Images{
		Kernel: m.kernel(), Argv: []string{"agent"}, Fork: func(f func()) { f() },
		Process: func() (Process, error) { return self, nil },
		Came: func() []syscall.Signal {
			m.went, m.came = m.came, nil
			return m.went
		},
		Flush: func(time.Duration) {},
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}
