package ads

import (
	"sort"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// SetSecrets sets the secrets that proxies get on request. Without a call no secrets are served. Proxies keep a secret
// that is no longer in the set: without it they could not serve.
func (s *Server) SetSecrets(all secret.Set) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	v, changed := s.secretResources.Load().Next(all)
	s.secretResources.Store(v)
	s.secrets.Store(&all)
	if g := s.current.Load(); g != nil && len(changed) > 0 {
		s.push(g.Mesh, model.Change{Since: time.Now(), Keys: changed, Count: len(changed)})
	}
}

// InUse is the certificate of a secret that connected proxies have of discovery: gateways serve it, clients of a
// DestinationRule show it.
type InUse struct {
	secret.Name
	From, Until time.Time
	Proxies     int // how many may have it
}

// CertificatesInUse returns the certificates of secrets that the configuration of connected proxies names, by name. A
// secret that no source has any more is not among them.
func (s *Server) CertificatesInUse() (out []InUse) {
	secrets, used := s.secrets.Load(), map[secret.Name]int{}
	if secrets == nil {
		return nil
	}
	for _, st := range s.all() {
		st.mu.Lock()
		if st.identified() && st.session != nil {
			if set := st.session.State(content.SDS); set != nil {
				for _, r := range set.All() {
					_, name := model.Lent(r.Name)
					used[secret.Name{Namespace: st.reader.Outbound.Namespace, Name: name}]++
				}
			}
		}
		st.mu.Unlock()
	}
	for name, proxies := range used {
		if one := (*secrets)[name.Namespace][name.Name]; !one.Until.IsZero() {
			out = append(out, InUse{name, one.From, one.Until, proxies})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// nearestExpiry returns when the first certificate in use ends; zero without any.
func (s *Server) nearestExpiry() (first time.Time) {
	for _, c := range s.CertificatesInUse() {
		if first.IsZero() || c.Until.Before(first) {
			first = c.Until
		}
	}
	return first
}
