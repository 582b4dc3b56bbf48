package ads

import (
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

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

// OnChange sets the function that is called when Clients or Pushes have something new. f must return at once. Call OnChange before Serve.
func (s *Server) OnChange(f func()) { s.changed = f }

// Gone returns the proxies that have left lately and not come back, the newest first.
func (s *Server) Gone(now time.Time) []Gone {
	connected := map[string]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		connected[st.node] = true
		st.mu.Unlock()
	}
	return s.gone.since(now.Add(-goneFor), connected)
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

// Lacking sets what says more, for people, of a secret that a proxy asks for and nobody has brought. It is called before Run.
func (s *Server) Lacking(f func(namespace, name string) string) { s.lacking = f }
