package ads

import (
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// secrets returns the secrets that a reader may have. out is its outbound half as xds made it.
func (vs *views) secrets(r reader, out *xds.Resources) *set {
	var list []*resource
	if s, some := vs.vault.of(r.Outbound.Namespace); some && r.secrets {
		for _, name := range xds.SecretNames(out, xds.BuildInbound(vs.mesh, r.Inbound)) {
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
