package ads

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
	"github.com/pilotlight/pilotlight/node"
)

// Client is one connected Envoy as /debug shows it.
type Client struct {
	Node      string `json:"node"` // "" until the first request has named it
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`     // in its ID, without the namespace
	Identity  string `json:"identity,omitempty"` // that its certificate proves, spiffe://…; "" without one
	// CertificateFrom and CertificateUntil are the life of that certificate, as it was shown when the proxy connected.
	CertificateFrom  time.Time `json:"certificate_from,omitzero"`
	CertificateUntil time.Time `json:"certificate_until,omitzero"`

	Peer      string    `json:"peer"`
	Version   string    `json:"version,omitempty"` // "envoy 1.40.0"
	Agent     string    `json:"agent,omitempty"`   // the version of its agent, "v0.2.0"; "" if it does not say
	Variant   string    `json:"variant"`           // sotw or delta
	Connected time.Time `json:"connected"`
	// Locality is that by which the proxy's endpoints are ordered, "region/zone/subzone". LocalityFrom is "node", the
	// proxy's own workload, or the reason why there is none.
	Locality     string `json:"locality,omitempty"`
	LocalityFrom string `json:"locality_from,omitempty"`
	// Generation is the last push of which the proxy has answered everything, and Since the time of that answer.
	Generation int64           `json:"generation"`
	Since      time.Time       `json:"since,omitzero"`
	Fault      string          `json:"fault,omitempty"` // of its node; see xds.View.DomainFault
	Waits      protocol.Wait   `json:"waits,omitzero"`  // why it keeps what it has
	Types      []protocol.Type `json:"types"`           // in the order CDS, EDS, LDS, RDS, and SDS and NDS if the client requested them
}

func (st *stream) client() Client {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := Client{
		Node: st.node, Peer: st.peer, Version: st.version, Agent: st.agent.Version, Variant: st.variant.String(), Connected: st.connected,
		Generation: st.reached, Since: st.at, Types: []protocol.Type{},
	}
	if st.identified() {
		c.Namespace = st.reader.Inbound.Namespace
		c.Name = proxyName(st.node, c.Namespace)
		if st.proven != (identity{}) {
			c.Identity = protocol.Clip(st.proven.String())
			if info, is := connInfoOf(st.wire.Context()).AuthInfo.(credentials.TLSInfo); is && len(info.State.PeerCertificates) > 0 {
				c.CertificateFrom, c.CertificateUntil = info.State.PeerCertificates[0].NotBefore, info.State.PeerCertificates[0].NotAfter
			}
		}
	}
	if st.session != nil {
		c.Types, c.Fault, c.Waits = st.session.Describe(), st.fault(st.shown), st.session.Wait()
		c.Locality, c.LocalityFrom = st.reader.Outbound.Locality.String(), st.locality.source()
	}
	return c
}

// Clients returns the connected proxies, ordered by node, then by age.
func (s *Server) Clients() []Client {
	clients := []Client{}
	for _, st := range s.all() {
		clients = append(clients, st.client())
	}
	sort.Slice(clients, func(i, j int) bool {
		a, b := clients[i], clients[j]
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Connected.Compare(b.Connected)) < 0
	})
	return clients
}

// settling is how long a registry may take to have the workload of a proxy that has connected.
const settling = 10 * time.Second

// Proxies returns the connected proxies as objects select them.
func (s *Server) Proxies() []model.Proxy {
	var out []model.Proxy
	for _, st := range s.all() {
		st.mu.Lock()
		if st.identified() {
			w := st.reader.Proxy()
			w.Name = proxyName(st.node, w.Namespace)
			w.Stream, w.Version, w.DNS, w.Agent = st.number, st.version, st.dns, st.agent
			w.Keys, w.Account = st.hub.maySeeSecrets(st.wire.Context()) == nil, st.proven.account
			w.New, w.Withheld = time.Since(st.connected) < settling, st.secretsWithheld()
			if st.session != nil {
				w.Refused, w.Unbound = st.session.Refused(), st.session.Unbound()
			}
			out = append(out, w)
		}
		st.mu.Unlock()
	}
	return out
}

// OnChange sets the function that is called when Clients or Pushes have something new. f must return at once. Call
// OnChange before Serve.
func (s *Server) OnChange(f func()) { s.changed = f }

// Disconnected returns the proxies that have left lately and not come back, the newest first.
func (s *Server) Disconnected(now time.Time) []Disconnected {
	connected := map[string]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		connected[st.node] = true
		st.mu.Unlock()
	}
	return s.disconnected.since(now.Add(-disconnectedFor), connected)
}

// Reader is a connected proxy with what its configuration depends on.
type Reader struct {
	Node    string
	View    xds.View
	Account string // the service account that its certificate proves; "" without one
}

// Readers returns the connected proxies with what their configuration depends on.
func (s *Server) Readers() (out []Reader) {
	for _, st := range s.all() {
		st.mu.Lock()
		if st.identified() {
			out = append(out, Reader{st.node, st.reader.View, st.reader.Account})
		}
		st.mu.Unlock()
	}
	return out
}

// proxyName returns the name in a node's ID, without the namespace at its end.
func proxyName(id, namespace string) string {
	if parts := strings.Split(id, "~"); len(parts) == 4 {
		id = parts[2]
	}
	return strings.TrimSuffix(protocol.Clip(id), "."+namespace)
}

// OnNews sets the function that is called when Proxies has something new: a proxy has connected, is found to refuse a
// part of its configuration, or does not get a secret. f must return at once. Call OnNews before Serve.
func (s *Server) OnNews(f func()) { s.onNews = f }

// Lacking sets what says more, for people, of a secret that a proxy asks for and nobody has brought. It is called
// before Run.
func (s *Server) Lacking(f func(namespace, name string) string) { s.lacking = f }

// Of proxies that are gone, the last maxDisconnected are remembered, and told for disconnectedFor.
const (
	maxDisconnected = 64
	disconnectedFor = 15 * time.Minute
)

// Disconnected is a proxy that has left and not come back.
type Disconnected struct {
	Node  string    `json:"node"`
	Name  string    `json:"name"`    // the one in its ID, NAME.NAMESPACE
	IP    string    `json:"address"` // the one in its ID
	At    time.Time `json:"at"`
	Cause string    `json:"cause"` // as in pilotlight's metric of resets: client, slow, refused, error
}

// disconnectedProxies are the proxies that have left last, the oldest first.
type disconnectedProxies struct {
	mu  sync.Mutex
	all []Disconnected
}

func (d *disconnectedProxies) add(g Disconnected) {
	if g.Node == "" {
		return // it never said who it is
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(o Disconnected) bool { return o.Node == g.Node })
	if len(d.all) == maxDisconnected {
		d.all = slices.Delete(d.all, 0, 1)
	}
	d.all = append(d.all, g)
}

// since returns those that left after a time and are not among connected, by node, the newest first.
func (d *disconnectedProxies) since(from time.Time, connected map[string]bool) []Disconnected {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []Disconnected{}
	for _, g := range slices.Backward(d.all) {
		if g.At.After(from) && !connected[g.Node] {
			if id, err := node.ParseID(g.Node); err == nil {
				g.Name, g.IP = id.Name, id.IP
			}
			out = append(out, g)
		}
	}
	return out
}

// Lagging returns those of the streams whose client has not accepted a route with a text, of a mesh that has something,
// with their nodes.
func (s *Server) Lagging(streams []int64, text string, has func(*model.Mesh) bool) map[int64]string {
	behind := map[int64]string{}
	for _, st := range s.all() {
		if slices.Contains(streams, st.number) && !st.accepted(text, has) {
			behind[st.number] = st.node
		}
	}
	return behind
}

// accepted reports whether the client asks for a route with the text, has it, and has refused none.
func (st *stream) accepted(text string, has func(*model.Mesh) bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.ended:
		return true // it is not there any more
	case st.session == nil || !has(st.shown.Mesh) || !st.session.Reached():
		return false
	}
	if slices.ContainsFunc(st.session.Describe(), func(t protocol.Type) bool {
		return t.Name == content.RDS.String() && t.State == protocol.StateNacked
	}) {
		return false
	}
	sent := st.session.Sent()[content.RDS]
	return sent != nil && slices.ContainsFunc(sent.All(), func(r *content.Resource) bool { return bytes.Contains(r.Whole(), []byte(text)) })
}

// Mesh returns the mesh of the newest generation, nil before the first Push.
func (s *Server) Mesh() *model.Mesh {
	if g := s.current.Load(); g != nil {
		return g.Mesh
	}
	return nil
}

// Dump returns the resources that were sent last to a proxy, by type, as JSON. The proxy is named by its node ID, by
// the name in it, or by NAMESPACE/NAME; a name that several have is refused. Of the streams of one, which a lost
// connection may have left, the newest with a type counts.
func (s *Server) Dump(proxy string) (map[string][]json.RawMessage, error) {
	var sets [content.Kinds]*content.Set
	var since [content.Kinds]time.Time
	named := map[string]bool{}
	for _, st := range s.all() {
		sent, id, ok := st.holds(proxy)
		if !ok {
			continue
		}
		named[strconv.Quote(id)] = true
		for k, set := range sent {
			if set != nil && (sets[k] == nil || st.connected.After(since[k])) {
				sets[k], since[k] = set, st.connected
			}
		}
	}
	switch len(named) {
	case 0:
		return nil, fmt.Errorf("proxy %q is not connected: want a node ID of /debug/adsz, the name in it, or NAMESPACE/NAME", proxy)
	case 1:
		return dump(sets)
	}
	return nil, fmt.Errorf("%d proxies have the name %q: want the node ID of one, %s", len(named), proxy, strings.Join(slices.Sorted(maps.Keys(named)), ", "))
}

// holds returns what was sent to the proxy of the stream, and its node ID, if that is the one that is named.
func (st *stream) holds(proxy string) (sets [content.Kinds]*content.Set, id string, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	parsed, err := node.ParseID(st.node)
	if err != nil || st.session == nil {
		return sets, "", false
	}
	namespace := st.reader.Inbound.Namespace
	if proxy != st.node && proxy != parsed.Name && proxy != namespace+"/"+proxyName(st.node, namespace) {
		return sets, "", false
	}
	return st.session.Sent(), st.node, true
}

func dump(sets [content.Kinds]*content.Set) (map[string][]json.RawMessage, error) {
	out := map[string][]json.RawMessage{}
	for k, s := range sets {
		list := []json.RawMessage{}
		if s != nil {
			for _, r := range s.All() {
				text, err := r.Show(content.Kind(k))
				if err != nil {
					return nil, err
				}
				list = append(list, text)
			}
		}
		out[content.Kind(k).String()] = list
	}
	return out, nil
}
