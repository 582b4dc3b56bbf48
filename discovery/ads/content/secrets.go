package content

import (
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// secrets returns the secrets that a reader may have. out is its outbound half as xds made it.
func (vs *Views) secrets(r Reader, out *xds.Resources) *Set {
	var list []*Resource
	if s, some := vs.Vault.of(r.Outbound.Namespace); some && r.Secrets {
		for _, name := range xds.SecretNames(out, xds.BuildInbound(vs.Mesh, r.Inbound)) {
			if secret := s.set.Find(name); secret != nil && s.opens(name, r) {
				list = append(list, secret)
			}
		}
	}
	if len(list) == 0 {
		return noSecrets
	}
	return NewSet(SDS, list)
}

var noSecrets = NewSet(SDS, nil) // of most proxies
