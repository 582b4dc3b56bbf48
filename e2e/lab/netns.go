package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Netns is a network namespace of a test's own. It needs root.
type Netns struct {
	Name string
	t    *testing.T
}

// User is the user and group of a thread in a namespace; GID 0 stands for the group with the user's number.
type User struct{ UID, GID int }

// NewNetns makes a namespace with loopback up, until the test ends.
func NewNetns(t *testing.T, name string) *Netns {
	t.Helper()
	n := &Netns{Name: fmt.Sprintf("%s-%06x", name, rand.IntN(1<<24)), t: t}
	if output, err := exec.Command("ip", "netns", "add", n.Name).CombinedOutput(); err != nil {
		t.Fatalf("ip netns add %s: %v: %s", n.Name, err, output)
	}
	t.Cleanup(func() {
		if output, err := exec.Command("ip", "netns", "delete", n.Name).CombinedOutput(); err != nil {
			t.Errorf("ip netns delete %s: %v: %s", n.Name, err, output)
		}
	})
	n.Must("ip", "link", "set", "lo", "up")
	return n
}

// Join connects two namespaces by a veth pair, with an interface in each.
func (n *Netns) Join(device string, other *Netns, otherDevice string) {
	n.t.Helper()
	n.Must("ip", "link", "add", device, "type", "veth", "peer", "name", otherDevice, "netns", other.Name)
	n.Must("ip", "link", "set", device, "up")
	other.Must("ip", "link", "set", otherDevice, "up")
}

// Address adds addresses to an interface: IPv6 addresses without duplicate address detection.
func (n *Netns) Address(device string, addresses ...string) {
	n.t.Helper()
	for _, a := range addresses {
		argv := []string{"ip", "address", "add", a, "dev", device}
		if strings.Contains(a, ":") {
			argv = append(argv, "nodad")
		}
		n.Must(argv...)
	}
}

// Argv returns the arguments of a command that runs in the namespace. It does not use ip netns exec, which would mount
// /sys again and hide the control groups.
func (n *Netns) Argv(argv ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + n.Name}, argv...)
}

// Command returns a command that runs in the namespace.
func (n *Netns) Command(argv ...string) *exec.Cmd {
	argv = n.Argv(argv...)
	return exec.CommandContext(n.t.Context(), argv[0], argv[1:]...)
}

// Must runs a command in the namespace, and returns its output.
func (n *Netns) Must(argv ...string) string {
	n.t.Helper()
	output, err := n.Command(argv...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %s: %v:\n%s", n.Name, strings.Join(argv, " "), err, output)
	}
	return string(output)
}

// As calls f on a thread in the namespace, as the user, without capabilities unless the user is root. The thread ends
// with f; sockets that f opens stay in the namespace.
func (n *Netns) As(user User, f func() error) error {
	return onThread(func() error { return n.as(user, f) })
}

// As calls f on a thread of the user, without capabilities unless the user is root. The thread ends with f.
func (u User) As(f func() error) error {
	return onThread(func() error {
		if err := u.become(); err != nil {
			return err
		}
		return f()
	})
}

func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: no other goroutine may run on this thread
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(3 * time.Minute):
		return errors.New("not done after three minutes")
	}
}

func (n *Netns) as(user User, f func() error) error {
	file, err := os.Open("/run/netns/" + n.Name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.Name, err)
	}
	if err := user.become(); err != nil {
		return err
	}
	return f()
}

// become changes the thread's user and group.
func (u User) become() error {
	if u.GID == 0 {
		u.GID = u.UID
	}
	// The raw system calls change this thread only.
	for _, call := range []struct{ number, id int }{{unix.SYS_SETRESGID, u.GID}, {unix.SYS_SETRESUID, u.UID}} {
		id := uintptr(call.id)
		if _, _, errno := syscall.RawSyscall(uintptr(call.number), id, id, id); errno != 0 {
			return fmt.Errorf("become user %d of group %d: %w", u.UID, u.GID, errno)
		}
	}
	return nil
}

// Dial connects from the namespace, as a user.
func (n *Netns) Dial(user User, network, address string, limit time.Duration) (c net.Conn, err error) {
	err = n.As(user, func() (err error) {
		c, err = net.DialTimeout(network, address, limit)
		return err
	})
	return c, err
}

// DialFrom connects by TCP from a port, which a connection may have had before, as a user.
func (n *Netns) DialFrom(user User, port int, address string, limit time.Duration) (c net.Conn, err error) {
	again := func(_, _ string, c syscall.RawConn) (failed error) {
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		})
		return errors.Join(err, failed)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}, Timeout: limit, Control: again}
	err = n.As(user, func() (err error) {
		c, err = dialer.Dial("tcp", address)
		return err
	})
	return c, err
}

// Listen listens in the namespace, as a user; the socket stays in the namespace.
func (n *Netns) Listen(user User, network, address string) (l net.Listener, err error) {
	err = n.As(user, func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// Client returns an HTTP client in the namespace, with a new connection for each request. resolve, if not nil, resolves
// its names: from host:port to an address and the port.
func (n *Netns) Client(user User, resolve func(address string) string) *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			if resolve != nil {
				address = resolve(address)
			}
			return n.Dial(user, network, address, requestTimeout)
		},
	}}
}

// Get is the function Get, from the namespace.
func (n *Netns) Get(url string) (string, error) { return get(n.Client(User{}, nil), url) }

// Stats is the function Stats, from the namespace.
func (n *Netns) Stats(admin, filter string) (map[string]int64, error) {
	return stats(n.Client(User{}, nil), admin, filter)
}
