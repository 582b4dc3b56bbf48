package health

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Look is what one look at the connections of a pod, or of a machine, has shown.
type Look struct {
	Passed int64            // connections and requests that came to the program through Envoy, since the start of Envoy
	Ports  map[uint16]int64 // the same for each port that discovery has configured
	Direct []Direct         // connections to these ports that came past Envoy from elsewhere
	Cut    bool             // there are more of these
}

// Direct is a connection that came past Envoy.
type Direct struct {
	Port   uint16         // of the program
	Client netip.AddrPort // at the other end
	Ended  bool           // the kernel remembers it for a minute
}

// Bypass is the memory of earlier looks: whether traffic that should be intercepted comes past Envoy. The zero Bypass is the state
// before the first one.
type Bypass struct {
	Looks int       // in a row that showed something
	Since time.Time // of the first of them
	Port  uint16
	From  netip.Addr

	looked bool
	passed int64    // at the last look
	ever   bool     // something has come through an Envoy of this proxy
	served []uint16 // the configured ports for which something has
	old    []Direct // connections that say nothing: they may be older than the redirection
}

// enoughLooks is how many looks in a row must show it: a redirection may be made a moment after the proxy has started.
const enoughLooks = 2

// Found reports whether traffic comes past Envoy.
func (b Bypass) Found() bool { return b.Looks >= enoughLooks }

// Suspects reports whether the last look has shown something that another one must confirm.
func (b Bypass) Suspects() bool { return b.Looks > 0 && !b.Found() }

// Next returns the state after a look. What comes through Envoy shows that there is a redirection: ports and clients that it leaves
// out are meant to be left out. Without any such traffic a finding stays, for nothing has shown that it is mended.
func (b Bypass) Next(l Look, now time.Time) Bypass {
	came := l.Passed > b.passed || l.Passed < b.passed && l.Passed > 0 // less: the counts are those of another Envoy
	next := Bypass{looked: true, passed: l.Passed, ever: b.ever || l.Passed > 0, served: l.add(b.served), old: b.old}
	if came {
		next.old = l.Direct
		return next
	}
	if !b.looked {
		next.old = slices.DeleteFunc(slices.Clone(l.Direct), func(d Direct) bool { return !d.Ended })
	}
	next.Looks, next.Since, next.Port, next.From = b.Looks, b.Since, b.Port, b.From
	at := slices.IndexFunc(l.Direct, func(d Direct) bool { return l.shows(d, next) })
	switch {
	case b.Found():
		return next
	case at < 0:
		next.Looks, next.Since, next.Port, next.From = 0, time.Time{}, 0, netip.Addr{}
	case b.Looks == 0:
		next.Since = now
		fallthrough
	default:
		next.Looks++
		next.Port, next.From = l.Direct[at].Port, l.Direct[at].Client.Addr()
	}
	return next
}

// add returns ports with those for which Envoy has served something.
func (l Look) add(ports []uint16) []uint16 {
	for port, n := range l.Ports {
		if n > 0 && !slices.Contains(ports, port) {
			ports = append(slices.Clone(ports), port)
		}
	}
	return ports
}

// shows reports whether a connection shows that there is no redirection. Once anything has come through Envoy, only a new connection to a
// port that Envoy has served does: the others may be older than the redirection, or left out of it.
func (l Look) shows(d Direct, known Bypass) bool {
	_, configured := l.Ports[d.Port]
	old := slices.Contains(known.old, d)
	switch {
	case !configured:
		return false
	case !known.ever:
		return !d.Ended || !old
	}
	return slices.Contains(known.served, d.Port) && !l.Cut && !old
}

// Bypassed is the part of a verdict about traffic that comes past Envoy.
type Bypassed struct {
	Since  time.Time  `json:"since"`
	Port   uint16     `json:"port"`   // of the program
	Client netip.Addr `json:"client"` // one that reaches it
}

// Verdict returns what is found; nil for nothing.
func (b Bypass) Verdict() *Bypassed {
	if !b.Found() {
		return nil
	}
	return &Bypassed{b.Since, b.Port, b.From}
}

// String says it for people, with what to do.
func (b Bypassed) String() string {
	return fmt.Sprintf("traffic is not redirected to Envoy: %s reaches port %d of the program directly, where no policy and no mutual TLS applies; run pod-init (on a machine: systemctl restart "+
		"pilotlight-redirect), or name a port that is left out on purpose in the annotation traffic.sidecar.istio.io/excludeInboundPorts, or set INTERCEPTION_MODE to NONE", b.Client, b.Port)
}

// Add adds what is found to a verdict: the proxy serves, and what comes past it is out of its reach.
func (b Bypass) Add(v Verdict) Verdict {
	if v.Bypassed = b.Verdict(); v.Bypassed != nil && v.Ready {
		if v.Degraded != "" {
			v.Degraded += "; "
		}
		v.Degraded += v.Bypassed.String()
	}
	return v
}
