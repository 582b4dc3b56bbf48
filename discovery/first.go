package discovery

// stance is what the first mesh depends on, of one source.
type stance struct {
	required bool // it is not optional
	whole    bool // it has synced, and can read all its parts
	settled  bool // it has synced, or has nothing more to send
	late     bool // its deadline has passed

	remembered bool // what it had before the start is known
	faulty     bool // it has failed, or said that it cannot read something
}

// waits reports whether there is no first mesh yet because of the source: half a mesh would remove configuration that
// proxies have.
func (s stance) waits() bool {
	switch {
	case s.remembered && (s.faulty || s.settled || s.late):
		return false
	case s.required:
		return !s.whole
	default:
		return !s.settled && !s.late
	}
}

func (c *cache) stance() stance {
	return stance{
		required: c.required, whole: c.whole(), settled: c.settled, late: c.status.Late,
		remembered: c.remembered(), faulty: !c.failed.IsZero() || len(c.faults) > 0,
	}
}

// awaits reports whether there is no mesh yet because of a source.
func (s *state) awaits(c *cache) bool { return !s.pushed && c.feed != nil && c.stance().waits() }

// complete reports whether the first mesh can be made: it waits for no source, including those of secrets. If some are
// late, another one must have synced, or be remembered, that holds more than settings of the mesh or names of sources: an empty mesh would
// remove all configuration that proxies have.
func (s *state) complete() bool {
	if s.withoutSecrets {
		return false
	}
	late, synced := false, false
	for _, c := range s.sources {
		switch {
		case s.awaits(c):
			return false
		case c.settled || c.remembered():
			synced = synced || !c.onlySettings() && !c.onlySources()
		case c.status.Late:
			late = true
		}
	}
	return synced || !late && len(s.sources) > 0
}
