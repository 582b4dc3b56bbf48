package ads

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// reader holds the properties of a stream on which its configuration depends, besides the mesh and the secrets: its
// view, whether it requests names, and, if it requests secrets, the service account of its certificate. The account is
// "" in plaintext; the client is then on this host.
type reader struct {
	xds.View
	names   bool
	secrets bool
	account string
}

// anyAccount stands for every service account of a namespace.
const anyAccount = "*"

// secrets returns the secrets that a reader may have. out is its outbound half as xds made it.
func (g *generation) secrets(r reader, out *xds.Resources) *set {
	var list []*resource
	if s, some := g.vault.of(r.Outbound.Namespace); some && r.secrets {
		for _, name := range xds.SecretNames(out, xds.BuildInbound(g.mesh, r.Inbound)) {
			if secret := s.set.find(name); secret != nil && s.opens(name, r) {
				list = append(list, secret)
			}
		}
	}
	if len(list) == 0 {
		return noSecrets
	}
	return newSet(sds, list)
}

var noSecrets = newSet(sds, nil) // of most proxies

// opens reports whether a reader's certificate gives access to a secret.
func (s shelf) opens(name string, r reader) bool {
	accounts, key := s.accounts[name]
	return !key || r.account == "" || slices.Contains(accounts, r.account) || slices.Contains(accounts, anyAccount)
}

// withheld returns the reason why a reader does not get a secret, "" if it gets it.
func (g *generation) withheld(name string, r reader) string {
	s, _ := g.vault.of(r.Outbound.Namespace)
	switch {
	case g.snapshot(r)[sds].find(name) != nil:
		return ""
	case s.set.find(name) == nil:
		return fmt.Sprintf("namespace %q has no secret of this name", r.Outbound.Namespace)
	case !s.opens(name, r):
		return fmt.Sprintf("service account %q is not among its service-accounts", r.account)
	}
	return "no Gateway that selects the proxy names it, nor a DestinationRule that the proxy is under"
}

// logWithheld logs the secrets that a stream requests and does not get, each reason once. denied is the reason why it
// gets no secrets at all, nil if it may have some; that is logged without their names, see refuse.
func (st *stream) logWithheld(asked *names, denied error) {
	for _, name := range asked.all() {
		var why string
		if denied != nil {
			why = status.Convert(denied).Message()
		} else {
			why = st.shown.withheld(name, st.reader)
		}
		_, logged := st.withheld[name]
		if why == st.withheld[name] || !logged && len(st.withheld) == maxWithheld {
			continue
		}
		if st.withheld == nil {
			st.withheld = map[string]string{}
		}
		if st.withheld[name] = why; why == "" {
			continue
		}
		if st.server.onNews(); denied == nil {
			st.log.Warn("secret not sent", "node", st.node, "peer", st.peer, "secret", clip(name), "reason", why)
		}
	}
}

// secretsWithheld returns the reasons why secrets that the stream has requested are not sent to it now, by name.
func (st *stream) secretsWithheld() (out map[string]string) {
	for name, why := range st.withheld {
		if st.protocol != nil && why != "" && st.protocol.state(sds).find(name) == nil {
			if out == nil {
				out = map[string]string{}
			}
			out[clip(name)] = why
		}
	}
	return out
}
