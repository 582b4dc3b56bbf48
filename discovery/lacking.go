package discovery

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// lack records that the first mesh, made at now, lacks a source: proxies that come back may have what it has, and nobody else
// knows that. They keep it until the source is whole, or removed, or released, or until the time is over.
func (s *state) lack(name string, now time.Time) {
	until := time.Time{}
	if s.patience.Recall > 0 {
		until = now.Add(s.patience.Recall)
	}
	s.lacking[name] = until
	s.log(slog.LevelError, "nothing is known of a source: proxies that come back keep what they have, others are served without it", "source", name,
		"until", until, "sooner", releaseCommand(name))
}

// lackNoMore records that a source is no longer lacking, and reports whether it was.
func (s *state) lackNoMore(name string, now time.Time) bool {
	_, lacked := s.lacking[name]
	if delete(s.lacking, name); lacked {
		s.markChange(now)
	}
	return lacked
}

// forgo ends the wait for a source of which still nothing is known, and reports whether there was one.
func (s *state) forgo(name string, now time.Time) bool {
	lacked := s.lackNoMore(name, now)
	if lacked {
		s.forgone[name] = true
	}
	return lacked
}

// endLack ends what lacks for too long.
func (s *state) endLack(name string, now time.Time) {
	if until := s.lacking[name]; !until.IsZero() && !now.Before(until) {
		s.forgo(name, now)
		s.log(slog.LevelError, "proxies that come back get what there is without a source, for the time is over", "source", name)
	}
}

// lacks returns the names of the sources that are lacking; nil for none.
func (s *state) lacks() []string { return slices.Sorted(maps.Keys(s.lacking)) }
