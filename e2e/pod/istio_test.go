//go:build pod

package pod

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// istioCase is one of the 27 configurations that istio-iptables is tested with (istio/istio,
// tools/istio-iptables/pkg/capture). The function verdict below says what Istio's rules do with a packet, from reading
// them. Zero is the default there.
type istioCase struct {
	name               string
	uids, gids         string // 1337 if empty
	in                 string // ports
	inSkip             string
	include, exclude   string // of outbound addresses
	outPorts           string
	only, except       string // groups of programs; the names of the original are numbers here
	virtual, skippedIF string
	servers            string // that DNS is captured for; empty for none
	dns                bool   // captured, if there are servers
	six                bool   // of IPv6 there are rules too
	tproxy, invalid    bool
	loopback           string // ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR, 127.0.0.1/32 if empty
}

var istioCases = []istioCase{
	{name: "empty"},
	{name: "ipv6-empty-inbound-ports", six: true},
	{name: "ip-range", exclude: "1.1.0.0/16", include: "9.9.0.0/16", dns: true, servers: "127.0.0.53", gids: "1,2", uids: "3,4"},
	{name: "tproxy", tproxy: true, in: "*", exclude: "1.1.0.0/16", include: "9.9.0.0/16", dns: true, servers: "127.0.0.53", skippedIF: "not-istio-nic", six: true},
	{name: "ipv6-inbound-ports", in: "4000,5000", six: true},
	{name: "ipv6-virt-interfaces", in: "4000,5000", virtual: "eth0,eth1", six: true},
	{
		name: "ipv6-ipnets", in: "4000,5000", inSkip: "6000,7000,", virtual: "eth0,eth1", exclude: "2001:db8::/32", include: "2001:db8::/32", six: true,
	},
	{
		name: "ipv6-uid-gid", in: "4000,5000", inSkip: "6000,7000", virtual: "eth0,eth1", gids: "1,2", uids: "3,4", six: true,
		exclude: "2001:db8::/32", include: "2001:db8::/32",
	},
	{name: "ipv6-outbound-ports", outPorts: "32000,31000", six: true},
	{name: "kube-virt-interfaces", virtual: "eth1,eth2", include: "*"},
	{name: "ipnets", include: "10.0.0.0/8"},
	{name: "ipnets-with-kube-virt-interfaces", virtual: "eth1,eth2", include: "10.0.0.0/8"},
	{name: "inbound-ports-include", in: "32000,31000"},
	{name: "inbound-ports-wildcard", in: "*"},
	{name: "inbound-ports-tproxy", in: "32000,31000", tproxy: true},
	{name: "inbound-ports-wildcard-tproxy", in: "*", tproxy: true},
	{name: "dns-uid-gid", dns: true, servers: "127.0.0.53 ::127.0.0.53", gids: "1,2", uids: "3,4", six: true},
	{name: "ipv6-dns-uid-gid", dns: true, gids: "1,2", uids: "3,4", six: true},
	{name: "outbound-owner-groups", only: "201,202"},
	{name: "outbound-owner-groups-exclude", except: "888,889"},
	{name: "ipv6-dns-outbound-owner-groups", dns: true, only: "201,202", six: true},
	{name: "ipv6-dns-outbound-owner-groups-exclude", dns: true, except: "888,889", six: true},
	{name: "outbound-ports-include", outPorts: "32000,31000"},
	{name: "loopback-outbound-iprange", include: "127.1.2.3/32", dns: true, servers: "127.0.0.53", gids: "1,2", uids: "3,4"},
	{name: "basic-exclude-nic", skippedIF: "not-istio-nic"},
	{name: "drop-invalid", invalid: true},
	{name: "host-ipv4-loopback-cidr", loopback: "127.0.0.1/8"},
}

// words are the variables and flags of pod-init for the case.
func (c istioCase) words(dir string) (words []string) {
	if c.only != "" {
		words = append(words, "ISTIO_OUTBOUND_OWNER_GROUPS="+c.only)
	}
	if c.except != "" {
		words = append(words, "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE="+c.except)
	}
	if c.dns {
		words = append(words, "RESOLV_CONF="+filepath.Join(dir, "resolv.conf"))
	}
	words = append(words, "-u", cmp.Or(c.uids, "1337"), "-g", cmp.Or(c.gids, "1337"), "-b", c.in, "-d", c.inSkip, "-i", c.include, "-x", c.exclude,
		"-q", c.outPorts, "-k", c.virtual, "-c", c.skippedIF)
	if c.tproxy {
		words = append(words, "-m", "TPROXY")
	}
	if c.dns {
		words = append(words, "--redirect-dns")
	}
	if c.invalid {
		words = append(words, "--drop-invalid")
	}
	return words
}

// probe is one new connection, or one datagram.
type probe struct {
	from    string // pod, world
	user    lab.User
	network string // tcp, udp
	host    string
	port    int
}

func (p probe) address() netip.Addr { return netip.MustParseAddr(p.host) }
func (p probe) six() bool           { return p.address().Is6() }

// here: the packet stays in the pod, over loopback.
func (p probe) here() bool {
	return p.address().IsLoopback() || slices.Contains([]string{podIP, podIP6, "::127.0.0.53"}, p.host)
}

func (p probe) String() string {
	return fmt.Sprintf("%s %d:%d %s %s", p.from, p.user.UID, p.user.GID, p.network, net.JoinHostPort(p.host, strconv.Itoa(p.port)))
}

// within reports whether an address is in one of the networks of a list.
func within(address netip.Addr, list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(item string) bool {
		network, err := netip.ParsePrefix(item)
		return item == "*" || err == nil && network.Contains(address)
	})
}

func listed(list string, number int) bool {
	return slices.Contains(strings.Split(list, ","), strconv.Itoa(number))
}

const tunnelPort = 15008

// verdict is what Istio's rules do: out, in and dns are ports of Envoy, "" leaves it alone.
func (c istioCase) verdict(p probe) string {
	tcp := p.network == "tcp"
	switch {
	case p.six() && !c.six:
		return ""
	case p.from == "world" && !c.tproxy && slices.Contains(strings.Split(c.virtual, ","), "eth0"):
		if within(p.address(), c.include) {
			return "out"
		}
		return ""
	case p.from == "world":
		if tcp && (c.tproxy || p.port != tunnelPort) && (c.in == "*" && !listed(c.inSkip, p.port) || listed(c.in, p.port)) {
			return "in"
		}
		return ""
	}
	return c.outbound(p, tcp)
}

// outbound are the rules of what leaves a program, in their order.
func (c istioCase) outbound(p probe, tcp bool) string {
	dns := c.dns && c.servers != ""
	loopback := within(p.address(), cmp.Or(c.loopback, "127.0.0.1/32")+",::1/128")
	included := strings.HasPrefix(c.include, "127.")
	for i, ids := range []string{cmp.Or(c.uids, "1337"), cmp.Or(c.gids, "1337")} {
		own := []int{p.user.UID, p.user.GID}[i]
		for id := range strings.SplitSeq(ids, ",") {
			is := id == strconv.Itoa(own)
			switch {
			case is && p.here() && tcp && !loopback && p.port != tunnelPort && (i == 1 || !dns || p.port != 53):
				return "in"
			case !is && !included && p.here() && (!dns || tcp && p.port != 53), is:
				return ""
			}
		}
	}
	switch {
	case c.only != "" && !listed(c.only, p.user.GID), listed(c.except, p.user.GID):
		return ""
	case dns && p.port == 53 && slices.Contains(strings.Fields(c.servers), p.host):
		return "dns"
	case loopback, within(p.address(), c.exclude), !tcp:
		return ""
	case listed(c.outPorts, p.port), within(p.address(), c.include):
		return "out"
	}
	return ""
}

// purpose says why pod-init does something else with a probe than Istio's rules, where it does so on purpose. Each is a line of
// docs/compat.md.
func (c istioCase) purpose(p probe, istio, ours string) string {
	redirected := c.in == "*" || listed(c.in, p.port)
	switch {
	case ours == "refused" && (p.port == outPort || p.port == inPort):
		return "Envoy's own ports cannot be dialled"
	case p.six() && !c.six:
		return "both families"
	case p.from == "world" && p.port == 22 && c.in == "*":
		return "port 22"
	case p.port == tunnelPort:
		return "no tunnels"
	case istio == "in" && ours == "" && !redirected:
		return "self-calls to ports that are not redirected"
	case istio == "in" && ours == "" && p.address().IsLoopback():
		return "all of 127.0.0.0/8"
	case istio == "in" && ours == "" && p.port == 53 && c.dns:
		return "resolvers in the pod"
	case ours == "in" && istio == "" && p.here():
		return "each user and group"
	}
	return ""
}

var purposes = []string{
	"Envoy's own ports cannot be dialled", "both families", "port 22", "no tunnels", "self-calls to ports that are not redirected",
	"all of 127.0.0.0/8", "resolvers in the pod", "each user and group",
}

func probes() (out []probe) {
	ports := []int{22, 53, 4000, 6000, 15020, tunnelPort, outPort, inPort, 31000, 32000}
	for _, host := range []string{podIP, podIP6} {
		for _, port := range ports {
			out = append(out, probe{"world", operator, "tcp", host, port})
		}
	}
	users := []lab.User{
		app, proxy,
		{UID: appUID, GID: proxyUID},
		{UID: 3, GID: 9},
		{UID: 4, GID: 9},
		{UID: appUID, GID: 1},
		{UID: appUID, GID: 2},
		{UID: appUID, GID: 202},
		{UID: appUID, GID: 888},
	}
	for _, user := range users {
		for _, host := range []string{vip, vip6, "9.9.0.1", "1.1.0.1", "2001:db8::1"} {
			for _, port := range []int{53, 4000, 32000} {
				out = append(out, probe{"pod", user, "tcp", host, port})
			}
		}
		for _, host := range []string{podIP, podIP6, "127.0.0.1", "127.1.2.3", "::1"} {
			for _, port := range []int{4000, tunnelPort} {
				out = append(out, probe{"pod", user, "tcp", host, port})
			}
		}
		for _, host := range []string{"127.0.0.53", "::127.0.0.53"} {
			out = append(out, probe{"pod", user, "tcp", host, 53}, probe{"pod", user, "udp", host, 53})
		}
		out = append(out, probe{"pod", user, "udp", vip, 53}, probe{"pod", user, "udp", "9.9.0.1", 4000})
	}
	return append(out, probe{"pod", app, "tcp", "127.0.0.1", outPort}, probe{"pod", proxy, "tcp", podIP, inPort})
}

// datagrams are what the servers of UDP have got, and which got it.
type datagrams struct {
	mu   sync.Mutex
	got  map[string]string
	sent int
}

// serve takes datagrams to a port, under a name.
func (d *datagrams) serve(t *testing.T, n *lab.Netns, name string, port int) {
	t.Helper()
	check(t, n.As(operator, func() error {
		packets, err := net.ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		t.Cleanup(func() { packets.Close() })
		go func() {
			buffer := make([]byte, 64)
			for {
				size, _, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				d.mu.Lock()
				d.got[string(buffer[:size])] = name
				d.mu.Unlock()
			}
		}()
		return nil
	}))
}

// send returns the name of the server that gets a datagram.
func (d *datagrams) send(n *lab.Netns, user lab.User, address string) (name string) {
	d.sent++
	token := strconv.Itoa(d.sent)
	c, err := n.Dial(user, "udp", address, stopLimit)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err := c.Write([]byte(token)); err != nil {
		return err.Error()
	}
	err = lab.Eventually(stopLimit, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if name = d.got[token]; name == "" {
			return fmt.Errorf("nobody got the datagram to %s", address)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return name
}

// In each of Istio's own cases pod-init does with real packets what Istio's rules do, but for what differs on purpose.
func TestIstiosCases(t *testing.T) {
	everyBackend(t, func(t *testing.T, s *scene, b backend) {
		d := &datagrams{got: map[string]string{}}
		s.world.Address("lo", "9.9.0.1/32", "1.1.0.1/32", "2001:db8::1/128")
		s.pod.Address("lo", "::127.0.0.53/128")
		for _, port := range []int{53, 4000, 31000, 32000} {
			s.serve(s.world, "world", port)
		}
		for _, port := range []int{53, 4000, 6000, tunnelPort, 31000, 32000} {
			s.serve(s.pod, "app", port)
		}
		s.serve(s.pod, "dns", 15053)
		d.serve(t, s.pod, "dns", 15053)
		d.serve(t, s.pod, "app", 53)
		d.serve(t, s.world, "world", 53)
		d.serve(t, s.world, "world", 4000)
		places := map[string]*lab.Netns{"pod": s.pod, "world": s.world}
		all, sent, reasons := probes(), 0, map[string]int{}
		for _, c := range istioCases {
			dir := t.TempDir()
			resolvers := ""
			for server := range strings.FieldsSeq(c.servers) {
				resolvers += "nameserver " + server + "\n"
			}
			check(t, os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(resolvers), 0o644))
			if output, err := b.run(s.pod, c.words(dir)...); err != nil {
				t.Fatalf("%s: %v:\n%s", c.name, err, output)
			}
			for _, p := range all {
				to := net.JoinHostPort(p.host, strconv.Itoa(p.port))
				got := ""
				if p.network == "udp" {
					got = d.send(places[p.from], p.user, to)
				} else {
					got, _, _ = dial(places[p.from], p.user, to)
				}
				ours := got
				if got == "world" || strings.HasPrefix(got, "app") || p.port == outPort && got == "out" || p.port == inPort && got == "in" && c.verdict(p) == "" {
					ours = ""
				}
				want := c.verdict(p)
				sent++
				if ours == want {
					continue
				}
				if why := c.purpose(p, want, ours); why != "" {
					reasons[why]++
					continue
				}
				t.Errorf("%s: %s: %q (answered by %q), Istio's rules: %q", c.name, p, ours, got, want)
			}
			if output, err := b.run(s.pod, "clean"); err != nil {
				t.Fatalf("%s: clean: %v:\n%s", c.name, err, output)
			}
		}
		t.Logf("%d probes in %d cases; different on purpose: %v", sent, len(istioCases), reasons)
		for _, why := range purposes {
			if reasons[why] == 0 {
				t.Errorf("nothing differs any more for the reason %q", why)
			}
		}
	})
}
