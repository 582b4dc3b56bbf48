package ads

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// ReleaseOfProxies is the name under which clients that would lose most of their clusters are released, as if it were a
// source.
const ReleaseOfProxies = "proxies"

// meshState returns what sessions know of a generation besides its resources.
func (h *hub) meshState(g *generation) protocol.MeshState {
	return protocol.MeshState{Lacks: len(g.Mesh.Lacks) > 0, Forgone: g.Mesh.Forgone, Wipe: h.limits.Wipe}
}

// logWait logs that a client would lose most of its clusters, at most once in shedEvery: a thousand may come back at
// once. Held: st.mu.
func (st *stream) logWait(now time.Time) {
	wait := st.session.Wait()
	was := st.waits
	if st.waits = wait.Waits() && !wait.Until.IsZero(); !st.waits || was {
		return
	}
	if last := st.hub.wipeLogged.Load(); last == nil || now.Sub(*last) > shedEvery {
		st.hub.wipeLogged.Store(&now)
		st.log.Error("most clusters of a proxy that came back are gone at once: it keeps what it has, for it may be an accident", "node", st.node,
			"lost", wait.Lost.Of("clusters"), "until", wait.Until, "sooner", "discovery release "+ReleaseOfProxies)
	}
}

// Reasons of waits.
const (
	forSource  = "source"
	forRemoval = "removal"
)

func reasonOf(w protocol.Wait) string {
	if w.Until.IsZero() {
		return forSource
	}
	return forRemoval
}

// waits returns the clients that wait, ordered by node.
func (c *openStreams) waits() (out []Client) {
	for _, st := range c.all() {
		st.mu.Lock()
		if st.session != nil && st.session.Wait().Waits() {
			out = append(out, Client{Node: protocol.Clip(st.node), Waits: st.session.Wait()})
		}
		st.mu.Unlock()
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Node < out[j].Node })
	return out
}

// waiting counts them by reason.
func (c *openStreams) waiting() map[string]int {
	count := map[string]int{forSource: 0, forRemoval: 0}
	for _, w := range c.waits() {
		count[reasonOf(w.Waits)]++
	}
	return count
}

// maxWaits is how many clients that wait a line names.
const maxWaits = 3

// Lines returns a line for each reason why clients wait.
func (s *Server) Lines() (out []string) {
	by := map[string][]Client{}
	for _, w := range s.waits() {
		by[reasonOf(w.Waits)] = append(by[reasonOf(w.Waits)], w)
	}
	if all := by[forSource]; len(all) > 0 {
		lacks := "a source"
		if g := s.current.Load(); g != nil && len(g.Mesh.Lacks) > 0 {
			lacks = "source " + strings.Join(g.Mesh.Lacks, " and source ")
		}
		out = append(out, fmt.Sprintf("proxies: %d came back and keep what they have, since nothing is known of %s: %s", len(all), lacks, named(all)))
	}
	if all := by[forRemoval]; len(all) > 0 {
		until := slices.MaxFunc(all, func(a, b Client) int { return a.Waits.Until.Compare(b.Waits.Until) }).Waits.Until
		out = append(out, fmt.Sprintf("proxies: %d came back and keep what they have, since most of their clusters are gone at once, until %s, or until `discovery release %s`: %s",
			len(all), until.UTC().Format(time.RFC3339), ReleaseOfProxies, named(all)))
	}
	return out
}

// named names the first clients that wait.
func named(all []Client) string {
	var out []string
	for i, c := range all {
		if i == maxWaits {
			out = append(out, fmt.Sprintf("%d more", len(all)-maxWaits))
			break
		}
		text := fmt.Sprintf("%q since %s", c.Node, c.Waits.Since.UTC().Format(time.RFC3339))
		if c.Waits.Lost.Lost > 0 {
			text += " would lose " + c.Waits.Lost.Of("clusters")
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// Release gives clients that keep clusters that are gone what there is, and returns their number.
func (s *Server) Release() (n int, err error) {
	for _, st := range s.all() {
		st.mu.Lock()
		released := st.session != nil && st.session.Release()
		st.mu.Unlock()
		if released {
			n++
			st.wake()
		}
	}
	if n == 0 {
		return 0, errors.New("no proxy keeps clusters that are gone")
	}
	s.log.Warn("proxies no longer keep clusters that are gone, as an operator has asked", "proxies", n)
	return n, nil
}
