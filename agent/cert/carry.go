package cert

// Carried is what another image of the agent needs to know of a Set.
type Carried struct {
	Hash  string `json:"Hash"`  // of the last certificates that Envoy has; empty for none
	Infos []Info `json:"Infos"` // of them
	Held  *Held  `json:"Held"`
}

// Carry returns it.
func (s *Set) Carry() (c Carried) {
	if proven := s.proven.Load(); proven != nil {
		c.Hash, c.Infos = proven.Hash, proven.Infos
	}
	c.Held = s.held.Load()
	return c
}

// Resume goes on with what another image knew. It must be called before Follow.
func (s *Set) Resume(c Carried) {
	if c.Hash != "" && len(c.Infos) > 0 {
		s.proven.Store(&Observation{Hash: c.Hash, Infos: c.Infos})
	}
	if c.Held != nil {
		s.held.Store(c.Held)
	}
}
