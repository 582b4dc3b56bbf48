//go:build pod

package pod

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// scene is a pod and the world, joined by a wire. In the pod every port of interest answers with its own name;
// nobody proxies it. The world has addresses that stand for services, and for other pods.
type scene struct {
	t          *testing.T
	pod, world *lab.Netns
}

const (
	podIP, podIP6     = "10.66.0.2", "fd00:66::2"
	worldIP, worldIP6 = "10.66.0.1", "fd00:66::1"
	vip, vip6         = "10.96.0.1", "fd00:96::1" // of a service
	otherIP           = "172.16.0.1"              // outside of 10.0.0.0/8
	innerIP, vmIP     = "10.77.0.1", "10.77.0.2"  // the pod's end of a wire to a virtual machine, and that
	outPort, inPort   = 15001, 15006
)

func newScene(t *testing.T) *scene {
	t.Helper()
	needs(t, "ip", "nsenter", "nft", "iptables", "ip6tables")
	s := &scene{t, lab.NewNetns(t, "pod"), lab.NewNetns(t, "world")}
	s.pod.Join("eth0", s.world, "pod0")
	s.pod.Address("eth0", podIP+"/24", podIP6+"/64")
	s.world.Address("pod0", worldIP+"/24", worldIP6+"/64")
	s.world.Address("lo", vip+"/32", vip6+"/128", otherIP+"/32", "192.0.2.1/32")
	s.pod.Must("ip", "route", "add", "default", "via", worldIP)
	s.pod.Must("ip", "-6", "route", "add", "default", "via", worldIP6)
	for _, port := range []int{80, 81, 443, 9000} {
		s.serve(s.world, "world", port)
	}
	for _, port := range []int{22, 8080, 8081, 9090, 15020} {
		s.serve(s.pod, fmt.Sprintf("app:%d", port), port)
	}
	s.serve(s.pod, "out", outPort)
	s.serve(s.pod, "in", inPort)
	return s
}

// serve answers every connection to a port with a name and the address that was dialled, over both families.
func (s *scene) serve(n *lab.Netns, name string, port int) {
	s.t.Helper()
	check(s.t, n.As(lab.User{}, func() error {
		config := net.ListenConfig{}
		if name == "in" {
			config.Control = transparent
		}
		l, err := config.Listen(s.t.Context(), "tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprintf(c, "%s %s %s", name, dialled(c.(*net.TCPConn)), c.RemoteAddr())
				c.Close()
			}
		}()
		return nil
	}))
}

// transparent lets a listener take connections to addresses that are not here.
func transparent(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	})
	if err == nil {
		err = failed
	}
	return err
}

// dialled returns what the client has dialled: the original destination of a redirected connection.
func dialled(c *net.TCPConn) string {
	local := c.LocalAddr().(*net.TCPAddr)
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	out := netip.AddrPortFrom(local.AddrPort().Addr().Unmap(), local.AddrPort().Port()).String()
	_ = raw.Control(func(fd uintptr) {
		const originalDst = 80 // SO_ORIGINAL_DST, and IP6T_SO_ORIGINAL_DST
		var a unix.RawSockaddrInet6
		size := uint32(unsafe.Sizeof(a))
		level := uintptr(unix.SOL_IPV6)
		if local.IP.To4() != nil {
			level = unix.SOL_IP
		}
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, level, originalDst,
			uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&size)), 0)
		port := int(a.Port>>8 | a.Port<<8)
		switch {
		case errno != 0:
		case level == unix.SOL_IP:
			four := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a))
			out = net.JoinHostPort(net.IP(four.Addr[:]).String(), strconv.Itoa(port))
		default:
			out = net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(port))
		}
	})
	return strings.ReplaceAll(out, "::ffff:", "")
}

// The ways to dial.
var (
	app      = lab.User{UID: appUID}
	proxy    = lab.User{UID: proxyUID}
	operator = lab.User{}
)

// dial connects to host:port from a namespace, and returns the name of the process that answered: "refused" and
// "nobody" are names as well. dialled is what the answerer takes for the address that was dialled.
func dial(n *lab.Netns, user lab.User, address string) (name, dialled, source string) {
	return answered(n.Dial(user, "tcp", address, stopLimit))
}

// answered reads who answers a connection, and closes it.
func answered(c net.Conn, err error) (name, dialled, source string) {
	var answer []byte
	if err == nil {
		defer c.Close()
		if err = c.SetDeadline(time.Now().Add(stopLimit)); err == nil {
			answer, err = io.ReadAll(c)
		}
	}
	switch {
	case err != nil && (strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "reset")):
		return "refused", "", ""
	case err != nil:
		return "nobody: " + err.Error(), "", ""
	}
	words := append(strings.Fields(string(answer)), "", "", "")
	return words[0], words[1], words[2]
}

// backend is what pod-init may find on a machine.
type backend struct{ name, path string }

// backends are nftables, and both kinds of iptables.
func backends(t *testing.T) []backend {
	t.Helper()
	needs(t, "iptables-legacy-restore", "ip6tables-legacy-restore")
	dir := t.TempDir()
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			legacy, err := exec.LookPath(family + "-legacy" + verb)
			check(t, err)
			check(t, os.Symlink(legacy, filepath.Join(dir, family+verb)))
		}
	}
	path := os.Getenv("PATH")
	return []backend{{"nft", path}, {"iptables", path}, {"iptables-legacy", dir + ":" + path}}
}

// run runs pod-init by the backend: variables first, then flags.
func (b backend) run(n *lab.Netns, words ...string) (string, error) {
	name, _, _ := strings.Cut(b.name, "-")
	return podInit(n, append([]string{"PATH=" + b.path, "POD_INIT_BACKEND=" + name}, words...)...)
}

// listing is every rule, route and address of the pod, by all backends, with the kernel's handles.
func (s *scene) listing() string {
	s.t.Helper()
	var out strings.Builder
	for line := range strings.Lines(s.pod.Must("sh", "-ec", `iptables-nft-save; ip6tables-nft-save
		iptables-legacy-save; ip6tables-legacy-save
		ip -4 rule; ip -6 rule; ip -4 route show table all; ip -6 address show dev lo; nft -a list ruleset inet`)) {
		// The other lines of iptables-save hold the time, and counters.
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "*") &&
			line != "COMMIT\n" {
			out.WriteString(line)
		}
	}
	return out.String()
}

// foreign adds rules that are not ours.
func (s *scene) foreign() {
	s.t.Helper()
	s.pod.Must("nft", "add table inet foreign; add chain inet foreign output { type nat hook output priority -50; };"+
		"add rule inet foreign output tcp dport 5000 redirect to :5001")
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, kind := range []string{"-nft", "-legacy"} {
			s.pod.Must(family+kind, "-t", "nat", "-N", "FOREIGN")
			s.pod.Must(family+kind, "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "6000", "-j", "FOREIGN")
			s.pod.Must(family+kind, "-A", "INPUT", "-p", "tcp", "--dport", "6001", "-j", "DROP")
		}
	}
}
