//go:build pod

package pod

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// --verify dials, and takes the rules back when the probe goes elsewhere; it knows when somebody listens already.
func TestVerify(t *testing.T) {
	needs(t, "busybox")
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.says(b, "verified: dialled 192.0.2.1 2001:db8::1, reached port 15001", "--verify")
		s.says(b, "verified: dialled 192.0.2.1 2001:db8::1, reached port 7000", "--verify", "-p",
			"7000") // nobody listens there
		s.says(b, "verified: dialled 10.96.0.1, reached port 7000", "-i", "10.0.0.0/8", "--verify=10.96.0.1", "-p", "7000")
		s.says(b, "no address is redirected", "-i", "", "--verify")
		s.says(b, "redirected: ")
		s.refuses(b, 1, "172.16.0.1 does not lead to port 7000", "-i", "10.0.0.0/8", "--verify=172.16.0.1", "-p", "7000")
		s.refuses(b, 1, "user 0 is not redirected", "-u", "0", "--verify")
		// Somebody else's rule is asked before ours.
		s.pod.Must("nft", "add table inet foreign; add chain inet foreign output { type nat hook output priority -150; };"+
			"add rule inet foreign output tcp dport 61337 redirect to :9090")
		s.refuses(b, 1, "192.0.2.1 does not lead to port 7000", "--verify", "-p", "7000")
		s.says(b, "cleaned: ", "clean")
		s.refuses(b, 1, "everything is as it was before", "--verify", "-p", "7000")
	})
}

// The command of README redirects what the pod calls, and what calls it, but for the agent's own port.
func TestRedirectionOfREADME(t *testing.T) {
	s := newScene(t)
	s.pod.Must("sh", "-ec", `PATH="$1:$PATH"`+"\n"+lab.Command(t, "README.md", "pod-init"), "sh", lab.Path("envoy-tools"))
	for _, try := range []try{
		outward(vip+":80", "out"), outward("127.0.0.1:8080", "app:8080"), asProxy(vip+":80", "world"),
		inward(podIP+":8080", "in"), inward(podIP+":15020", "app:15020"), inward(podIP+":15006", "refused"),
	} {
		places := map[string]*lab.Netns{"pod": s.pod, "world": s.world}
		if answer, _, _ := dial(places[try.from], try.user, try.to); answer != try.answer {
			t.Errorf("%s, user %d, to %s: answered by %q, want %q", try.from, try.user.UID, try.to, answer, try.answer)
		}
	}
}

// clean --keep-connections lets what is redirected live, and redirects nobody new; a clean after it leaves nothing.
func TestCleanMayKeepConnections(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.listen(s.pod, 7000, nil, lab.SayBack)
		s.listen(s.pod, 7006, transparent, lab.SayBack)
		s.listen(s.pod, 7100, nil, lab.SayBack)
		for _, mode := range []string{"REDIRECT", "TPROXY"} {
			s.says(b, "redirected: ", "-m", mode, "-p", "7000", "-z", "7006")
			all := map[string]*kept{
				"outbound": s.keep(s.pod, app, vip+":80"), "inbound": s.keep(s.world, operator, podIP+":8080"),
			}
			if mode == "TPROXY" {
				c, err := s.asEnvoy(worldIP, 40005, podIP+":7100")
				check(t, err)
				t.Cleanup(func() { c.Close() })
				all["to the program"] = &kept{c}
				check(t, all["to the program"].exchange())
			}
			s.says(b, "but for what keeps connections alive", "clean", "--keep-connections", "-m", mode, "-p", "7000", "-z",
				"7006")
			for name, c := range all {
				if err := c.exchange(); err != nil {
					t.Errorf("%s, %s: the connection is broken: %v", mode, name, err)
				}
			}
			if answer, _, _ := dial(s.pod, app, vip+":80"); answer != "world" {
				t.Errorf("%s: a new connection is answered by %q, want the world", mode, answer)
			}
			if answer, _, _ := dial(s.world, operator, podIP+":8080"); answer != "app:8080" {
				t.Errorf("%s: a new connection is answered by %q, want the program", mode, answer)
			}
			s.says(b, "cleaned: ", "clean")
			if rules := s.listing(); strings.Contains(rules, "pilotlight") {
				t.Errorf("%s: left:\n%s", mode, rules)
			}
		}
	})
}

// kept is a connection that stays, to a server that repeats what it gets.
type kept struct{ net.Conn }

func (s *scene) keep(n *lab.Netns, user lab.User, address string) *kept {
	s.t.Helper()
	c, err := n.Dial(user, "tcp", address, stopLimit)
	check(s.t, err)
	k := &kept{c}
	s.t.Cleanup(func() { k.Close() })
	check(s.t, k.exchange())
	return k
}

// control sets options of a socket.
type control = func(network, address string, c syscall.RawConn) error

// listen serves a port of a namespace: it answers each connection, and then closes it.
func (s *scene) listen(n *lab.Netns, port int, control control, answer func(net.Conn)) {
	s.t.Helper()
	check(s.t, n.As(operator, func() error {
		l, err := (&net.ListenConfig{Control: control}).Listen(s.t.Context(), "tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { l.Close() })
		go lab.AnswerEach(l, answer)
		return nil
	}))
}

func (k *kept) exchange() error {
	if err := k.SetDeadline(time.Now().Add(stopLimit)); err != nil {
		return err
	}
	if _, err := k.Write([]byte("x")); err != nil {
		return err
	}
	_, err := k.Read(make([]byte, 100))
	return err
}

// Rules that are applied again and again under new connections fail none of them.
func TestRulesChangeUnderLoad(t *testing.T) {
	s := newScene(t)
	b := backend{"nft", os.Getenv("PATH")}
	s.says(b, "redirected: ")
	var dials, failures atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			dials.Add(1)
			if answer, _, _ := dial(s.pod, app, vip+":80"); answer != "out" {
				failures.Add(1)
				t.Errorf("answered by %q", answer)
			}
		}
	}()
	for i := range 40 {
		s.says(b, "redirected: ", "-o", fmt.Sprint(1+i%2))
	}
	close(stop)
	<-done
	t.Logf("40 changes, %d connections, %d failed", dials.Load(), failures.Load())
	if dials.Load() < 100 {
		t.Errorf("only %d connections were made", dials.Load())
	}
}

// A connection that was begun before the rules, and never answered, is forgotten: another from its port is redirected.
func TestUnansweredConnectionsAreForgotten(t *testing.T) {
	needs(t, "conntrack")
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		// Connection tracking is on, and the service drops what comes.
		s.pod.Must("nft", "add table inet foreign; add chain inet foreign output { type filter hook output priority 0; };"+
			"add rule inet foreign output ct state new accept")
		s.world.Must("nft", "add table inet silent; add chain inet silent input { type filter hook input priority 0; };"+
			"add rule inet silent input tcp dport 9000 drop")
		call := func(patience time.Duration) error {
			c, err := s.pod.DialFrom(app, 40000, vip+":9000", patience)
			if err == nil {
				c.Close()
			}
			return err
		}
		if err := call(200 * time.Millisecond); err == nil {
			t.Fatal("the service answers")
		}
		s.says(b, "redirected: ")
		if err := call(stopLimit); err != nil {
			t.Errorf("from the same port, after the rules: %v", err)
		}
	})
}

// Connections that are open when the rules come keep their way, and no packet of such a connection leads a new one past Envoy.
func TestOpenConnectionsKeepTheirWay(t *testing.T) {
	for _, mode := range []string{"REDIRECT", "TPROXY"} {
		t.Run(mode, func(t *testing.T) {
			everyBackend(t, func(t *testing.T, s *scene, b backend) {
				s.listen(s.pod, 7100, nil, lab.SayBack)
				s.listen(s.world, 7200, nil, lab.SayBack)
				open := map[string]net.Conn{}
				for address, from := range map[string]*lab.Netns{
					podIP + ":7100": s.world, "[" + podIP6 + "]:7100": s.world, worldIP + ":7200": s.pod, "[" + worldIP6 + "]:7200": s.pod,
				} {
					check(t, lab.Eventually(stopLimit, func() error { // an address of IPv6 is not there at once
						c, err := from.Dial(app, "tcp", address, stopLimit)
						open[address] = c
						return err
					}))
				}
				talk := func(when string) {
					for address, c := range open {
						got := make([]byte, 5)
						_, err := fmt.Fprint(c, "hello")
						if err == nil {
							_ = c.SetReadDeadline(time.Now().Add(stopLimit))
							_, err = io.ReadFull(c, got)
						}
						if err != nil || string(got) != "hello" {
							t.Errorf("%s, %s: %q %v", address, when, got, err)
						}
					}
				}
				talk("before")
				s.says(b, "redirected: ", "-m", mode)
				talk("after")
				for range 2 {
					s.acknowledge(40100, 8080)
					c, err := s.world.DialFrom(operator, 40100, podIP+":8080", time.Second) // or nobody answers
					if name, _, _ := answered(c, err); name != "in" && !strings.HasPrefix(name, "nobody") {
						t.Errorf("behind a packet of no connection %q answers", name)
					}
				}
				if name, _, _ := dial(s.world, operator, podIP+":8080"); name != "in" {
					t.Errorf("from another port %q answers", name)
				}
				for address, c := range open {
					c.Close()
					if name, _, _ := dial(map[bool]*lab.Netns{true: s.world, false: s.pod}[strings.Contains(address, "7100")], app, address); name != "in" && name != "out" {
						t.Errorf("a new connection to %s is answered by %q", address, name)
					}
				}
			})
		})
	}
}

// acknowledge sends a packet of TCP from the world to the pod that acknowledges, and is of no connection.
func (s *scene) acknowledge(from, to uint16) {
	s.t.Helper()
	packet := make([]byte, 20)
	binary.BigEndian.PutUint16(packet, from)
	binary.BigEndian.PutUint16(packet[2:], to)
	packet[4], packet[8], packet[12], packet[13], packet[14] = 1, 1, 5<<4, 0x10, 0xff // sequence, acknowledgement, length, ACK, window
	source, target := netip.MustParseAddr(worldIP).As4(), netip.MustParseAddr(podIP).As4()
	sum := uint32(6 + len(packet)) // with the pseudo header
	for _, part := range [][]byte{source[:], target[:], packet} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(part[i])<<8 | uint32(part[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(packet[16:], ^uint16(sum))
	check(s.t, s.world.As(lab.User{}, func() error {
		raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		defer unix.Close(raw)
		return unix.Sendto(raw, packet, 0, &unix.SockaddrInet4{Addr: target})
	}))
}

// By TPROXY a new connection with the ports of one that Envoy has just closed, or reset, is redirected like any other:
// the socket of that one is still there, or the kernel still tracks it.
func TestPortsThatAreUsedAgain(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.listen(s.pod, 7006, transparent, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) })
		for port, want := range map[int]string{inPort: "in", 7006: "refused"} {
			s.says(b, "redirected: ", "-m", "TPROXY", "-z", fmt.Sprint(port))
			for _, ip := range []string{podIP, podIP6} {
				for n := range 3 {
					var name string
					check(t, lab.Eventually(stopLimit, func() error { // an address of IPv6 is not there at once
						c, err := s.world.DialFrom(operator, 30000+port, net.JoinHostPort(ip, "8080"), stopLimit)
						if name, _, _ = answered(c, err); strings.HasPrefix(name, "nobody") {
							return errors.New(name)
						}
						return nil
					}))
					if name != want {
						t.Errorf("%s: connection %d from one port is answered by %q, want %q", ip, n+1, name, want)
					}
				}
			}
		}
	})
}

// By TPROXY Envoy calls the program as the client, and may do so from a port that the client has, or gets, for a
// connection of its own: each has its answers.
func TestPortsOfClientsAndEnvoy(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.listen(s.pod, 7100, nil, lab.SayBack)
		s.listen(s.pod, 7006, transparent, func(c net.Conn) {
			for { // in Envoy's place
				if _, err := c.Read(make([]byte, 100)); err != nil {
					return
				}
				fmt.Fprint(c, "in")
			}
		})
		s.says(b, "redirected: ", "-m", "TPROXY", "-z", "7006")
		for client, pod := range map[string]string{worldIP: podIP, worldIP6: podIP6} {
			program := net.JoinHostPort(pod, "7100")
			for _, port := range []int{40003, 40004} {
				dials := map[string]func() (net.Conn, error){
					"in": func() (net.Conn, error) { return s.world.DialFrom(operator, port, program, stopLimit) },
					"x":  func() (net.Conn, error) { return s.asEnvoy(client, port, program) },
				}
				open := map[string]net.Conn{}
				order := []string{"in", "x"}
				if port%2 == 0 {
					slices.Reverse(order)
				}
				for _, from := range order {
					check(t, lab.Eventually(stopLimit, func() (err error) { // an address of IPv6 is not there at once
						open[from], err = dials[from]()
						return err
					}))
					defer open[from].Close()
					for want, c := range open {
						if got := said(c); got != want {
							t.Errorf("%s, after %q of %q: %q is answered by %q", program, from, order, want, got)
						}
					}
				}
			}
		}
	})
}

// said returns the answer to one byte.
func said(c net.Conn) string {
	answer := make([]byte, 100)
	if err := c.SetDeadline(time.Now().Add(stopLimit)); err != nil {
		return err.Error()
	}
	fmt.Fprint(c, "x")
	n, err := c.Read(answer)
	if err != nil {
		return err.Error()
	}
	return string(answer[:n])
}

// asEnvoy connects as Envoy does for a client: from the client's address, with the mark by which that is known.
func (s *scene) asEnvoy(client string, port int, address string) (c net.Conn, err error) {
	control := func(network, _ string, c syscall.RawConn) (failed error) {
		level, option := unix.SOL_IP, unix.IP_TRANSPARENT
		if network == "tcp6" {
			level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
		}
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, proxyUID),
				unix.SetsockoptInt(int(fd), level, option, 1))
		})
		return errors.Join(err, failed)
	}
	from := &net.TCPAddr{IP: net.ParseIP(client), Port: port}
	err = s.pod.As(operator, func() (err error) {
		c, err = (&net.Dialer{LocalAddr: from, Timeout: stopLimit, Control: control}).Dial("tcp", address)
		return err
	})
	return c, err
}

// By TPROXY a connection that the kernel accepts by a cookie is Envoy's. It has no socket before, and the program's
// would take the cookie.
func TestCookies(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.says(b, "redirected: ", "-m", "TPROXY")
		s.pod.Must("sysctl", "-qw", "net.ipv4.tcp_syncookies=2") // always
		for _, try := range []try{
			outward("127.0.0.1:8080", "app:8080"), inward(podIP+":8080", "in"), inward("["+podIP6+"]:8080", "in"),
		} {
			places := map[string]*lab.Netns{"pod": s.pod, "world": s.world}
			if answer, _, _ := dial(places[try.from], try.user, try.to); answer != try.answer {
				t.Errorf("from %s to %s: answered by %q, want %q", try.from, try.to, answer, try.answer)
			}
		}
	})
}

// While Envoy does not listen nobody answers: the program's port is not open for that time.
func TestNobodyAnswersForEnvoy(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		for mode, want := range map[string]string{"REDIRECT": "connection refused", "TPROXY": "timeout"} {
			s.says(b, "redirected: ", "-m", mode, "-z", "7006")
			for _, ip := range []string{podIP, podIP6} {
				c, err := s.world.Dial(operator, "tcp", net.JoinHostPort(ip, "8080"), time.Second)
				if err == nil {
					c.Close()
				}
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%s, %s: %v, want %s", mode, ip, err, want)
				}
			}
		}
	})
}

// By TPROXY a connection to the program lives on that is older than the rules, or than those that take its port.
func TestOlderConnectionsLiveOn(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		s.listen(s.pod, 7100, nil, lab.SayBack)
		for _, before := range [][]string{{"clean"}, {"-m", "TPROXY", "-d", "7100"}} {
			s.says(b, "", before...)
			c := s.keep(s.world, operator, podIP+":7100")
			s.says(b, "redirected: ", "-m", "TPROXY")
			if err := c.exchange(); err != nil {
				t.Errorf("after %q: %v", before, err)
			}
		}
	})
}

// Datagrams go where they are sent.
func TestUDPIsUntouched(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		for _, mode := range []string{"REDIRECT", "TPROXY"} {
			s.says(b, "redirected: ", "-m", mode)
			s.datagram(s.pod, s.world, vip+":53")
			s.datagram(s.pod, s.world, "["+vip6+"]:53")
			s.datagram(s.world, s.pod, podIP+":15006")
			s.datagram(s.world, s.pod, "["+podIP6+"]:8080")
		}
	})
}

// datagram sends one from a namespace to an address of another, and wants it back.
func (s *scene) datagram(from, to *lab.Netns, address string) {
	s.t.Helper()
	var server net.PacketConn
	check(s.t, to.As(operator, func() (err error) {
		server, err = net.ListenPacket("udp", address)
		return err
	}))
	defer server.Close()
	go func() {
		buffer := make([]byte, 10)
		if n, peer, err := server.ReadFrom(buffer); err == nil {
			server.WriteTo(buffer[:n], peer)
		}
	}()
	client, err := from.Dial(app, "udp", address, stopLimit)
	check(s.t, err)
	defer client.Close()
	if err := (&kept{client}).exchange(); err != nil {
		s.t.Errorf("a datagram to %s: %v", address, err)
	}
}

// Any POSIX shell will do, and no capability but NET_ADMIN.
func TestShellsAndPrivileges(t *testing.T) {
	needs(t, "dash", "busybox", "bash", "setpriv")
	s := newScene(t)
	script := lab.Path("envoy-tools", "pod-init")
	for _, shell := range [][]string{{"dash"}, {"busybox", "sh"}, {"bash", "--posix"}} {
		for _, name := range []string{"nft", "iptables"} {
			argv := append([]string{"setpriv", "--inh-caps=-all", "--bounding-set=-all,+net_admin", "--no-new-privs"}, shell...)
			for _, words := range [][]string{{"-m", "TPROXY"}, nil, {"clean"}} {
				s.pod.Must(append(append(argv, script), append(words, "--backend", name)...)...)
			}
		}
	}
}
