package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace marks a test binary that was started again in a namespace of its own.
const inNamespace = "PILOTLIGHT_IN_NAMESPACE"

// InNetworkNamespace runs a test in a network namespace of its own, with loopback up, as its root: it starts the test
// binary again there. It needs no privilege where the kernel grants user namespaces.
func InNetworkNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET, func(t *testing.T) {
		loopbackUp(t)
		test(t)
	})
}

// InMountNamespace runs a test in a mount namespace of its own, so that no other process sees its mounts.
func InMountNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNS, func(t *testing.T) {
		privateMounts(t)
		test(t)
	})
}

// InMountAndNetworkNamespace is InMountNamespace and InNetworkNamespace in one.
func InMountAndNetworkNamespace(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS, func(t *testing.T) {
		privateMounts(t)
		loopbackUp(t)
		test(t)
	})
}

// InPodNetwork runs a test in mount and network namespaces of its own, where the addresses of 10.1.0.0/16 lead to loopback: an
// API server takes no loopback address as an endpoint.
func InPodNetwork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	InMountAndNetworkNamespace(t, func(t *testing.T) {
		if output, err := exec.Command("ip", "route", "add", "local", "10.1.0.0/16", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("lead addresses to loopback: %v: %s", err, output)
		}
		test(t)
	})
}

// InNodeNamespaces runs a test as process one of network, mount and process namespaces of its own, as root: all that it starts
// and mounts ends with it. Mounts are shared within, as a kubelet needs it.
func InNodeNamespaces(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS|syscall.CLONE_NEWPID, func(t *testing.T) {
		for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
			if err := unix.Mount("none", "/", "", unix.MS_REC|propagation, ""); err != nil {
				t.Fatalf("keep mounts in the namespace: %v", err)
			}
		}
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			t.Fatalf("mount the namespace's processes: %v", err)
		}
		loopbackUp(t)
		test(t)
	})
}

// MountTmpfs mounts a tmpfs, until the test ends: options such as "size=64k".
func MountTmpfs(t *testing.T, dir, options string, flags uintptr) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Fatalf("mount tmpfs at %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// Fill writes a file until its disk is full.
func Fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk of %s: %v", path, err)
	}
}

func inNamespaces(t *testing.T, namespaces uintptr, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		test(t)
		return
	}
	ours := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
	again := exec.Command("/proc/self/exe", append([]string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=" + flag.Lookup("test.timeout").Value.String()}, ours...)...)
	again.Env = append(os.Environ(), inNamespace+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	output, err := again.CombinedOutput()
	t.Logf("in namespaces of its own:\n%s", output)
	if err != nil {
		t.Errorf("in namespaces of its own: %v (not root? the kernel must grant user namespaces)", err)
	}
}

func privateMounts(t *testing.T) {
	t.Helper()
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("keep mounts private: %v", err)
	}
}

func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatalf("bring loopback up: %v", err)
	}
}

// WriteSysctl sets a kernel parameter of the test's network namespace: "net/ipv4/tcp_migrate_req".
func WriteSysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
		t.Fatalf("set %s: %v", name, err)
	}
}

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
