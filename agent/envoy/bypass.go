package envoy

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Nobody but the kernel knows whether there is a redirection, and it tells only root. Its effect is visible: without one, connections from
// elsewhere to ports of the program end at the program.

const (
	bypassInterval = time.Minute // between two looks; as long as the kernel remembers a connection that has ended
	mostDirect     = 256         // connections that are compared with those of the next look
)

// bypass is what the looks of all epochs have shown.
type bypass struct {
	mu    sync.Mutex
	state health.Bypass
	due   time.Time // of the next look
	blind bool      // the last one was not possible
}

// get returns the state.
func (b *bypass) get() health.Bypass {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Bypassed returns what is known of traffic that comes past Envoy, though it should be intercepted; nil for none that was seen.
func (p *Proxy) Bypassed() *health.Bypassed { return p.bypass.get().Verdict() }

// lookPast looks for traffic that comes past Envoy, once a minute, and sooner while there may be some.
func (c *process) lookPast(ctx context.Context) {
	now := time.Now()
	if c.Redirection == nil || !c.live.Load() || c.serving() != c || !c.bypass.begin(now) {
		return
	}
	direct, cut, err := c.Redirection.direct()
	if c.bypass.blinded(err) {
		c.Log.Warn("not known whether traffic comes past Envoy: the connections of this host cannot be read", "epoch", c.launch.Epoch, "err", err)
	}
	if err != nil {
		return // the last answer stays
	}
	look, err := c.admin.passed(ctx, len(direct) > 0)
	if err != nil {
		return // likewise; the verdict names an Envoy that does not answer
	}
	look.Cut = cut
	for _, s := range c.foreign(direct, look.Ports) {
		look.Direct = append(look.Direct, health.Direct{Port: s.Address.Port(), Client: s.Peer, Ended: s.Inode == 0})
	}
	before, found := c.bypass.next(look, now)
	switch {
	case before == nil && found != nil:
		c.Log.Warn("traffic comes past Envoy", "epoch", c.launch.Epoch, "port", found.Port, "client", found.Client.String(), "why", found.String())
	case before != nil && found == nil:
		c.Log.Info("traffic comes through Envoy again", "epoch", c.launch.Epoch)
	default:
		return
	}
	if c.Diverted != nil {
		c.Diverted()
	}
}

// begin reports whether a look is due, and sets when the next one is.
func (b *bypass) begin(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.due) {
		return false
	}
	b.due = now.Add(bypassInterval)
	return true
}

// blinded notes whether a look was not possible, and reports whether it is the first one in a row.
func (b *bypass) blinded(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.blind
	b.blind = err != nil
	return b.blind && !was
}

// next adds a look. While there is something to confirm or to see mended, the next look comes with Envoy's next query.
func (b *bypass) next(l health.Look, now time.Time) (before, found *health.Bypassed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = b.state.Verdict()
	if b.state = b.state.Next(l, now); b.state.Looks > 0 {
		b.due = time.Time{}
	}
	return before, b.state.Verdict()
}

// direct asks the kernel for connections that may have come past Envoy; cut means that there are more.
func (r *Redirection) direct() (found []procnet.Socket, cut bool, err error) {
	all, err := procnet.Listeners()
	if err != nil {
		return nil, false, err
	}
	own, err := ownAddresses()
	if err != nil {
		return nil, false, err
	}
	n := netns{Redirection: r, ports: map[uint16]bool{}, own: own, led: map[call]bool{}}
	for _, l := range all {
		n.ports[l.Address.Port()] = r.Takes(l.Address.Port())
	}
	err = procnet.Sockets(1<<procnet.Established|1<<procnet.TimeWait, n.add)
	return n.direct(), n.cut, err
}

// netns is what the kernel lists of a network namespace.
type netns struct {
	*Redirection
	ports map[uint16]bool // on which something listens: whether they are redirected
	own   map[netip.Addr]bool
	led   map[call]bool
	found []procnet.Socket
	cut   bool
}

// call is of a client to a program. With TPROXY Envoy makes it from the client's address, and the program may see
// another port than Envoy has.
type call struct {
	client  netip.Addr
	program netip.AddrPort
}

func (n *netns) add(s procnet.Socket) {
	switch {
	case n.Transparent && n.ports[s.Peer.Port()] && !n.own[s.Address.Addr()]:
		n.led[call{s.Address.Addr(), s.Peer}] = true
	case !n.ports[s.Address.Port()] || !n.past(s, n.own):
	case len(n.found) == mostDirect:
		n.cut = true
	default:
		n.found = append(n.found, s)
	}
}

// direct returns the connections that Envoy has not made as a client.
func (n *netns) direct() []procnet.Socket {
	return slices.DeleteFunc(n.found, func(s procnet.Socket) bool { return n.led[call{s.Peer.Addr(), s.Address}] })
}

// Redirection is how inbound traffic is said to be redirected to Envoy.
type Redirection struct {
	Takes       func(port uint16) bool // those that are not left out
	Transparent bool                   // by TPROXY: connections to Envoy keep the port that was dialled, and those to the program their client
}

// past reports whether a connection may have come past Envoy: from elsewhere, not from Envoy or a program here. A connection that has ended
// says with TPROXY nothing: nobody knows any more whose it was.
func (r *Redirection) past(s procnet.Socket, own map[netip.Addr]bool) bool {
	from := s.Peer.Addr()
	local := from.IsLoopback() || from == envoySix || from == s.Address.Addr() || own[from]
	return !local && (s.Inode != 0 || !r.Transparent)
}

// envoySix is the address from which Envoy connects to the program by IPv6; 127.0.0.6 is one of loopback.
var envoySix = netip.MustParseAddr("::6")

func ownAddresses() (map[netip.Addr]bool, error) {
	all, err := net.InterfaceAddrs()
	own := map[netip.Addr]bool{}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr().Unmap()] = true
		}
	}
	return own, err
}

// foreign returns the connections to configured ports that do not end at an Envoy of this agent.
func (c *process) foreign(direct []procnet.Socket, configured map[uint16]int64) (out []procnet.Socket) {
	var envoys map[string]bool // their sockets
	for _, s := range direct {
		if _, is := configured[s.Address.Port()]; !is {
			continue
		}
		if envoys == nil {
			envoys = map[string]bool{}
			for _, pid := range c.Pids() {
				if sockets, err := procnet.SocketsOf(pid); err == nil {
					maps.Copy(envoys, sockets)
				}
			}
		}
		if envoys[strconv.FormatUint(uint64(s.Inode), 10)] {
			continue
		}
		out = append(out, s)
	}
	return out
}

// passed asks what has come to the program through Envoy; all asks for the ports for which nothing has come too, which costs Envoy more.
// Of a port whose counters a stats_matcher leaves out nothing is known.
func (a *Admin) passed(ctx context.Context, all bool) (health.Look, error) {
	query := url.Values{"filter": {`^cluster\.(inbound\||InboundPassthroughCluster).*\.upstream_(cx|rq)_total$`}}
	if !all {
		query.Set("usedonly", "")
	}
	body, err := a.get(ctx, "/stats?"+query.Encode())
	if err != nil {
		return health.Look{}, err
	}
	return passedIn(parseStats(string(body))), nil
}

func passedIn(stats map[string]int64) health.Look {
	look := health.Look{Ports: map[uint16]int64{}}
	for name, n := range stats {
		look.Passed += n
		rest, inbound := strings.CutPrefix(name, "cluster.inbound|")
		number, _, _ := strings.Cut(rest, "|")
		if port, err := strconv.ParseUint(number, 10, 16); err == nil && inbound {
			look.Ports[uint16(port)] += n
		}
	}
	return look
}
