package ads

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// SetSecrets sets the secrets that proxies get on request. Without a call no secrets are served. Proxies keep a secret
// that is no longer in the set: without it they could not serve.
func (s *Server) SetSecrets(all secret.Set) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	v, changed := s.vault.Load().Next(all)
	s.vault.Store(v)
	s.secrets.Store(&all)
	if g := s.current.Load(); g != nil && len(changed) > 0 {
		s.push(g.Mesh, model.Change{Since: time.Now(), Keys: changed, Count: len(changed)})
	}
}
