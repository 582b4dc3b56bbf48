//go:build pod

package pod

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// resolver is a DNS server of the network, over UDP and TCP. It knows the names below .test: each is 192.0.2.7, but
// those that begin with silent have no answer.
type resolver struct {
	mu    sync.Mutex
	asked []string // "udp other.test."
}

const outsideIP = "192.0.2.7"

func (r *resolver) serve(t *testing.T, n *lab.Netns, ip string) {
	t.Helper()
	var packets net.PacketConn
	check(t, n.As(operator, func() (err error) {
		packets, err = net.ListenPacket("udp", net.JoinHostPort(ip, "53"))
		return err
	}))
	connections, err := n.Listen(operator, "tcp", net.JoinHostPort(ip, "53"))
	check(t, err)
	t.Cleanup(func() { packets.Close(); connections.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			size, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := r.answer("udp", buffer[:size]); answer != nil {
				_, _ = packets.WriteTo(answer, from)
			}
		}
	}()
	go func() {
		for {
			c, err := connections.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var size [2]byte
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				question := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(c, question); err == nil {
					answer := r.answer("tcp", question)
					_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
				}
			}()
		}
	}()
}

func (r *resolver) answer(over string, packet []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) == 0 {
		return nil
	}
	q := m.Questions[0]
	name := strings.ToLower(q.Name.String())
	r.mu.Lock()
	r.asked = append(r.asked, over+" "+name)
	r.mu.Unlock()
	if strings.HasPrefix(name, "silent") {
		return nil
	}
	m.Header.Response, m.Header.RecursionAvailable, m.Additionals = true, true, nil
	switch {
	case !strings.HasSuffix(name, ".test."):
		m.Header.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: netip.MustParseAddr(outsideIP).As4()},
		}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// was reports how often a question came.
func (r *resolver) was(asked string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asked {
		if a == asked {
			n++
		}
	}
	return n
}

// lookup asks the resolver at an address for a name, as a program does, for "ip4" or "ip6".
func (w *workload) lookup(over, at, kind, name string, limit time.Duration) (string, error) {
	finder := net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return w.Dial(app, over, net.JoinHostPort(at, "53"), limit)
	}}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	found, err := finder.LookupNetIP(ctx, kind, name)
	var out []string
	for _, ip := range found {
		out = append(out, ip.String())
	}
	slices.Sort(out)
	return strings.Join(out, " "), err
}

// A pod whose DNS is captured: names of the mesh, outside names, services of one port without addresses, a resolver that
// says nothing, packets that are none, and a change.
func TestDNSIsAnswered(t *testing.T) {
	const database = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s}
spec:
  hosts: [%[1]s.example.com]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 5432, name: tcp, protocol: TCP, targetPort: 9000}]
  endpoints: [{address: "%[2]s"}]
`
	m := newMesh(t, false, "REDIRECT", fmt.Sprintf(database, "one", "10.77.0.12")+fmt.Sprintf(database, "two", "10.77.0.13"))
	const at = "10.77.0.53"
	known := &resolver{}
	known.serve(t, m.join("resolver", at), at)
	a := m.pods["a"]
	a.captureDNS(at)
	a.inject("--redirect-dns")
	finds := func(over, kind, name, want string) {
		t.Helper()
		if got, err := a.lookup(over, at, kind, name, 10*time.Second); err != nil || got != want {
			t.Errorf("%s %s over %s: got %q, %v, want %q", kind, name, over, got, err, want)
		}
	}

	for _, name := range []string{
		"b.default.svc.cluster.local.", "b.default.svc.", "b.default.", "b.", "B.Default.SVC.cluster.LOCAL.",
	} {
		finds("udp", "ip4", name, m.vip("b"))
	}
	// Answers of Envoy's filter to other questions (docs/design/011-dns.md). Where a name has IPv4 only, the question
	// for IPv6 has to be answered: programs on musl take "no such name" for the answer to both.
	for _, test := range []struct {
		name string
		kind dnsmessage.Type
		want dnsmessage.RCode
	}{
		{"b.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess},
		{"one.example.com.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess},
		{"other.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeNameError},
		{"no.such.name.", dnsmessage.TypeA, dnsmessage.RCodeNameError},
		{"other.test.", dnsmessage.TypeTXT, dnsmessage.RCodeNotImplemented},
	} {
		if got := a.asks(at, test.name, test.kind); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.name, test.kind, got, test.want)
		}
	}
	finds("udp", "ip4", "other.test.", outsideIP)
	finds("tcp", "ip4", "other.test.", outsideIP)
	if n := known.was("udp b."); n != 0 {
		t.Errorf("the resolver was asked %d times for a name of the mesh", n)
	}
	if udp, tcp := known.was("udp other.test."), known.was("tcp other.test."); udp == 0 || tcp != 1 {
		t.Errorf("the resolver was asked %d times over UDP and %d over TCP for an outside name", udp, tcp)
	}

	// Two services of one port.
	for name, want := range map[string]string{"one": "b", "two": "c"} {
		ip, err := a.lookup("udp", at, "ip4", name+".example.com.", 10*time.Second)
		if err != nil || !strings.HasPrefix(ip, "240.240.") {
			t.Fatalf("%s: %s, %v", name, ip, err)
		}
		if who, _, _ := dial(a.Netns, app, net.JoinHostPort(ip, "5432")); who != want {
			t.Errorf("%s.example.com, %s, is answered by %s, want %s", name, ip, who, want)
		}
	}

	// A silent resolver holds up nobody who asks for something else.
	silent := make(chan error, 1)
	go func() {
		_, err := a.lookup("udp", at, "ip4", "silent.test.", 20*time.Second)
		silent <- err
	}()
	check(t, lab.Eventually(stopLimit, func() error {
		if known.was("udp silent.test.") == 0 {
			return fmt.Errorf("the resolver was not asked")
		}
		return nil
	}))
	watch := lab.StartStopwatch()
	finds("udp", "ip4", "b.", m.vip("b"))
	finds("udp", "ip4", "third.test.", outsideIP)
	watch.Within(t, 2*time.Second, "to resolve two names beside a silent resolver")
	if err := <-silent; err == nil {
		t.Error("a name without an answer has one")
	}

	a.malformed(at, 5000)
	finds("udp", "ip4", "b.", m.vip("b"))

	// Ten thousand names come, and the table with them.
	var many strings.Builder
	many.WriteString("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: many}\nspec:\n  resolution: NONE\n" +
		"  location: MESH_EXTERNAL\n  addresses: [10.98.0.1]\n  ports: [{number: 8443, name: tls, protocol: TLS}]\n  hosts:\n")
	for i := range 10000 {
		fmt.Fprintf(&many, "  - n%d.example.net\n", i)
	}
	begun := time.Now()
	check(t, os.WriteFile(filepath.Join(m.dir, "config", "many.yaml"), []byte(many.String()), 0o644))
	worst := time.Duration(0)
	check(t, lab.Eventually(60*time.Second, func() error {
		asked := time.Now()
		if got, err := a.lookup("udp", at, "ip4", "b.", 10*time.Second); err != nil || got != m.vip("b") {
			t.Errorf("during the change: %q, %v", got, err)
		}
		worst = max(worst, time.Since(asked))
		_, err := a.lookup("udp", at, "ip4", "n9999.example.net.", 10*time.Second)
		return err
	}))
	t.Logf("10,000 names were answered %s after they were written; a lookup meanwhile took %s at most", time.Since(begun), worst)
	finds("udp", "ip4", "n0.example.net.", "10.98.0.1")
	m.counts(a, `update_rejected$`, 0, 0)
}

// asks asks the resolver at an address one question, and returns the code of the answer.
func (w *workload) asks(at, name string, kind dnsmessage.Type) dnsmessage.RCode {
	t := w.mesh.t
	t.Helper()
	c, err := w.Dial(app, "udp", net.JoinHostPort(at, "53"), stopLimit)
	check(t, err)
	defer c.Close()
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	packet, err := question.Pack()
	check(t, err)
	check(t, c.SetDeadline(time.Now().Add(stopLimit)))
	_, err = c.Write(packet)
	check(t, err)
	buffer := make([]byte, 4096)
	size, err := c.Read(buffer)
	check(t, err)
	var answer dnsmessage.Message
	check(t, answer.Unpack(buffer[:size]))
	return answer.Header.RCode
}

// captureDNS gives the workload a resolver of its own, and the variable by which Istio captures DNS.
func (w *workload) captureDNS(resolver string) {
	t := w.mesh.t
	t.Helper()
	file := filepath.Join(w.mesh.dir, w.name+"-resolv.conf")
	check(t, os.WriteFile(file, []byte("search default.svc.cluster.local\nnameserver "+resolver+"\n"), 0o644))
	w.variables = []string{"RESOLV_CONF=" + file}
	w.environment = []string{"ISTIO_META_DNS_CAPTURE=true"}
	w.around = []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, file}
}

// malformed sends packets that are not questions, or nearly are.
func (w *workload) malformed(at string, n int) {
	t := w.mesh.t
	t.Helper()
	c, err := w.Dial(app, "udp", net.JoinHostPort(at, "53"), stopLimit)
	check(t, err)
	defer c.Close()
	random := rand.New(rand.NewPCG(1, 1))
	question := []byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01b\x00\x00\x01\x00\x01")
	for range n {
		packet := slices.Clone(question)
		switch random.IntN(4) {
		case 0: // noise
			packet = make([]byte, random.IntN(600))
			for i := range packet {
				packet[i] = byte(random.Uint32())
			}
		case 1: // cut short
			packet = packet[:random.IntN(len(packet))]
		case 2: // names that point at themselves
			packet = append(packet[:12], []byte(strings.Repeat("\xc0\x0c", 1+random.IntN(200))+"\x00\x01\x00\x01")...)
		default:
			for range 1 + random.IntN(6) {
				packet[random.IntN(len(packet))] = byte(random.Uint32())
			}
		}
		_, _ = c.Write(packet) // refused where the kernel has been told that nobody listens: the next lookup tells
	}
}

// The way of a question by UDP, and of a connection to port 53, by flags.
func TestDNSRedirection(t *testing.T) {
	const elsewhere = otherIP
	file := filepath.Join(t.TempDir(), "resolv.conf")
	check(t, os.WriteFile(file, []byte("nameserver "+vip+"\nnameserver "+vip6+"\n"), 0o644))
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		before := s.listing()
		s.answer(s.world, "world", "53")
		s.answer(s.pod, "envoy", "15053")
		s.serve(s.world, "world", 53)
		s.serve(s.pod, "dns", 15053)
		for _, test := range []struct {
			words []string
			tries map[string]string // network, user, address → who answers
		}{
			{nil, map[string]string{
				"udp app " + vip: "world", "tcp app " + vip: "out",
			}},
			{[]string{"--redirect-dns"}, map[string]string{
				"udp app " + vip: "envoy", "udp proxy " + vip: "world", "udp app " + elsewhere: "world",
				"udp app " + vip6: "envoy", "udp proxy " + vip6: "world",
				"tcp app " + vip: "dns", "tcp proxy " + vip: "world", "tcp app " + elsewhere: "out", "tcp app " + vip6: "dns",
			}},
			{[]string{"ISTIO_META_DNS_CAPTURE=true"}, map[string]string{"udp app " + vip: "envoy"}},
			{[]string{"ISTIO_META_DNS_CAPTURE=true", "--redirect-dns=false"}, map[string]string{"udp app " + vip: "world"}},
			{[]string{"--redirect-dns", "--capture-all-dns"}, map[string]string{
				"udp app " + elsewhere: "envoy", "udp proxy " + elsewhere: "world", "tcp app " + elsewhere: "dns",
			}},
			{[]string{"--redirect-dns", "-g", "1000"}, map[string]string{"udp app " + vip: "world"}},
			{[]string{"ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE=1000", "--redirect-dns"}, map[string]string{
				"udp app " + vip: "world", "tcp app " + vip: "world",
			}},
			{[]string{"ISTIO_OUTBOUND_OWNER_GROUPS=2000", "--redirect-dns"}, map[string]string{"udp app " + vip: "world"}},
			{[]string{"-c", "eth0", "--redirect-dns"}, map[string]string{"udp app " + vip: "world"}},
			{[]string{"-m", "TPROXY", "--redirect-dns"}, map[string]string{"udp app " + vip: "envoy", "udp proxy " + vip: "world"}},
			{[]string{"-i", "", "--redirect-dns"}, map[string]string{"udp app " + vip: "envoy", "tcp app " + vip: "dns"}},
		} {
			words := append([]string{"RESOLV_CONF=" + file}, test.words...)
			s.says(b, "redirected: ", words...)
			s.says(b, "unchanged: ", words...)
			for try, want := range test.tries {
				how := strings.Fields(try)
				user := map[string]lab.User{"app": app, "proxy": proxy}[how[1]]
				var got string
				if how[0] == "tcp" {
					got, _, _ = dial(s.pod, user, net.JoinHostPort(how[2], "53"))
				} else {
					got = s.ask(user, "", how[2])
				}
				if got != want {
					t.Errorf("%q: %s is answered by %s, want %s", test.words, try, got, want)
				}
			}
			s.says(b, "cleaned: ", "clean")
			if after := s.listing(); after != before {
				t.Fatalf("%q leaves\n%s\nbefore:\n%s", test.words, after, before)
			}
		}

		// One port after another: what a program asked from it does not lead what the proxy asks.
		s.says(b, "redirected: ", "RESOLV_CONF="+file, "--redirect-dns")
		for _, from := range []string{podIP + ":40001", podIP + ":40002", podIP + ":40003"} {
			if got := s.ask(app, from, vip); got != "envoy" {
				t.Errorf("a program from %s is answered by %s", from, got)
			}
			if got := s.ask(proxy, from, vip); got != "world" {
				t.Errorf("the proxy from %s, after a program, is answered by %s", from, got)
			}
			if got := s.ask(app, from, vip); got != "envoy" {
				t.Errorf("a program from %s, after the proxy, is answered by %s", from, got)
			}
		}
		if name, _, _ := dial(s.pod, app, "127.0.0.1:15053"); name != "refused" {
			t.Errorf("a program that dials 15053 itself is answered by %s", name)
		}
	})
}

// answer answers every packet to a port with a name, over both families. In the pod it is the proxy.
func (s *scene) answer(n *lab.Netns, name, port string) {
	s.t.Helper()
	addresses, user := []string{"127.0.0.1", "::1"}, proxy
	if n == s.world {
		addresses, user = []string{vip, vip6, otherIP}, operator
	}
	for _, ip := range addresses {
		var packets net.PacketConn
		check(s.t, n.As(user, func() (err error) {
			packets, err = net.ListenPacket("udp", net.JoinHostPort(ip, port))
			return err
		}))
		s.t.Cleanup(func() { packets.Close() })
		go func() {
			buffer := make([]byte, 512)
			for {
				_, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo([]byte(name), from)
			}
		}()
	}
}

// ask sends a packet to port 53 of an address, from an address of its own where one is given, and returns the name of the server that answers.
func (s *scene) ask(user lab.User, from, to string) string {
	s.t.Helper()
	var c net.Conn
	err := s.pod.As(user, func() (err error) {
		d := net.Dialer{Timeout: stopLimit}
		if from != "" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))
		}
		c, err = d.Dial("udp", net.JoinHostPort(to, "53"))
		return err
	})
	check(s.t, err)
	defer c.Close()
	check(s.t, c.SetDeadline(time.Now().Add(stopLimit)))
	_, err = c.Write([]byte("?"))
	check(s.t, err)
	buffer := make([]byte, 512)
	size, err := c.Read(buffer)
	if err != nil {
		return "nobody: " + err.Error()
	}
	return string(buffer[:size])
}
