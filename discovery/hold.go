package discovery

import (
	"cmp"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// hold is of groups that a source no longer has, or has less of. They are served until a deadline: so many were removed
// at once that it may be an accident.
type hold struct {
	groups       map[string]model.Group // what the source has of each
	since, until time.Time              // zero for no hold
	lost         string                 // what they are, such as "9 of 10 hosts"
}

func newHold() hold { return hold{groups: map[string]model.Group{}} }

// goes reports whether a group that a source sends takes away what is served: the record is gone, or the registry no
// longer lists a part of it.
func (c *cache) goes(key string, now model.Group) bool {
	before, had := c.groups[key]
	_, held := c.held.groups[key]
	switch {
	case !had || now.Malformed():
		return false
	case now.Empty():
		return true
	default:
		return (now.Lapsed || held) && model.EndpointsLost(before, now) > 0
	}
}

// remove replaces groups of a source by what the source has of them from now on, which is nothing of most, unless it must
// hold them.
func (s *state) remove(name string, c *cache, going map[string]model.Group, now time.Time) {
	if !s.hold(name, c, going, s.lost(name, c, going), now) {
		s.replaceAll(name, c, going, now)
	}
}

// removeOf does the same for an update, which may say that nothing need be held, or that the source is left without any object: then
// its policies stay, and the rest is held however little it is.
func (s *state) removeOf(u model.Update, name string, c *cache, going map[string]model.Group, now time.Time) {
	if u.Emptied && s.patience.Wipe > 0 {
		going = s.strand(name, c, going, now)
		if !u.Certain && len(going) > 0 {
			s.hold(name, c, going, cmp.Or(s.lost(name, c, going), fmt.Sprintf("all %d groups", len(going))), now)
			return
		}
	}
	if u.Certain {
		s.replaceAll(name, c, going, now)
		return
	}
	s.remove(name, c, going, now)
}

// strand keeps the policies of a source that is left without any object, and returns the other groups.
func (s *state) strand(name string, c *cache, going map[string]model.Group, now time.Time) map[string]model.Group {
	rest, before := map[string]model.Group{}, len(c.stranded)
	for key, group := range going {
		if !c.groups[key].Policies() {
			rest[key] = group
			continue
		}
		c.stranded[key] = true
		c.memory.resend(key, model.Group{}) // it is no longer of before the start
	}
	if len(c.stranded) > before {
		c.kept.dirty(now)
		s.journal.log(slog.LevelError, "source is left without any object, its policies count until they are back", "source", name,
			"policies", len(c.stranded), "sooner", releaseCommand(name))
	}
	return rest
}

// hold keeps groups of a source if they are a mass, and reports whether it does. A hold begins once for a source: what goes
// while it lasts joins it, with the same end.
func (s *state) hold(name string, c *cache, going map[string]model.Group, lost string, now time.Time) bool {
	if lost == "" {
		return false
	}
	maps.Copy(c.held.groups, going)
	level := slog.LevelWarn
	if c.held.until.IsZero() {
		level, c.held.since, c.held.until = slog.LevelError, now, now.Add(s.patience.Wipe)
	}
	c.held.lost = lost
	s.journal.log(level, "groups of a source are gone at once and held, for it may be an accident", "source", name, "lost", lost,
		"groups", len(c.held.groups), "until", c.held.until, "sooner", releaseCommand(name))
	return true
}

// replaceAll makes groups what their source has sent. It forgets a source that was removed.
func (s *state) replaceAll(name string, c *cache, groups map[string]model.Group, now time.Time) {
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		s.replace(c, name, key, groups[key], now)
	}
	if c.feed == nil {
		delete(s.sources, name)
		s.gone = append(s.gone, name)
	}
}

// replace makes a group what its source has sent.
func (s *state) replace(c *cache, name, key string, group model.Group, now time.Time) {
	delete(c.held.groups, key)
	delete(c.stranded, key)
	delete(c.leaving, key)
	c.memory.resend(key, group)
	c.breaks(key, group)
	if before, changed := c.take(key, group); changed {
		s.markGroup(c, groupKey{name, key}, before, now)
	}
}

// lost returns a text with what would be removed if groups of a source went together with those that are held, or "" if
// that is not a mass. A source that runs is measured by itself, one that was removed against the whole mesh.
func (s *state) lost(name string, c *cache, going map[string]model.Group) string {
	if s.patience.Wipe <= 0 || len(going) == 0 {
		return ""
	}
	var losses model.Losses
	if len(c.held.groups) > 0 {
		losses.Lapsed()
	}
	add := func(key string, next model.Group) {
		if before, had := c.groups[key]; had {
			losses.Add(before, next)
		}
	}
	for key, next := range going {
		add(key, next)
	}
	for key, next := range c.held.groups {
		if _, again := going[key]; !again {
			add(key, next)
		}
	}
	var beside []*model.Census
	for other, its := range s.sources {
		if other != name {
			beside = append(beside, its.census)
		}
	}
	return losses.Mass("hosts", c.census, beside, c.feed == nil)
}

// letGo ends a hold: the groups become what their source has of them.
func (s *state) letGo(name string, c *cache, now time.Time) {
	held := c.held.groups
	c.forget()
	s.replaceAll(name, c, held, now)
}

// release ends the hold of a source, and the wait of proxies for it, because an operator asks for it.
func (s *state) release(name string, now time.Time) {
	if c := s.sources[name]; c != nil && len(c.held.groups) > 0 {
		s.journal.log(slog.LevelWarn, "groups are no longer held, as an operator has asked",
			"source", name, "lost", c.held.lost, "groups", len(c.held.groups))
		s.letGo(name, c, now)
	}
	if c := s.sources[name]; c != nil && len(c.stranded) > 0 {
		s.journal.log(slog.LevelWarn, "policies of a source without any object are removed, as an operator has asked",
			"source", name, "policies", len(c.stranded))
		s.replaceAll(name, c, nothingOf(slices.Sorted(maps.Keys(c.stranded))), now)
	}
	if s.lacking.forgo(name) {
		s.pushes.markChange(now)
		s.journal.log(slog.LevelWarn, "proxies that come back get what there is without a source, as an operator has asked",
			"source", name)
	}
}

// endHold ends the hold of a source if its time is over, or the source has all groups again.
func (s *state) endHold(name string, c *cache, now time.Time) {
	switch {
	case c.held.until.IsZero():
	case len(c.held.groups) == 0:
		c.forget()
		s.journal.log(slog.LevelInfo, "groups are no longer held, for the source has them again", "source", name)
	case !now.Before(c.held.until):
		s.journal.log(slog.LevelError, "groups are no longer held, for the time is over",
			"source", name, "lost", c.held.lost, "groups", len(c.held.groups))
		s.letGo(name, c, now)
	}
}

// Linger is how long a removed service is served where nothing else is set.
const Linger = time.Second

// linger keeps a service of a registry that its source removes at now: a service that is deleted and made again, as by
// `kubectl replace --force`, must not fail the requests in between. It returns false for a group that goes at once, or
// joins those that are held.
func (s *state) linger(c *cache, key string, group model.Group, now time.Time) bool {
	if _, held := c.held.groups[key]; held || !group.Empty() || s.patience.Linger <= 0 || len(c.groups[key].Services) == 0 {
		return false
	}
	if c.leaving[key].IsZero() {
		c.leaving[key] = now.Add(s.patience.Linger)
	}
	return true
}

// yield removes the services that linger and have a host or an address that another group has from now on: it must not
// share them with a service that is gone.
func (s *state) yield(groups map[string]model.Group, now time.Time) {
	var taken map[string]bool
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		for _, key := range slices.Sorted(maps.Keys(c.leaving)) {
			if taken == nil {
				taken = claimed(maps.Values(groups))
			}
			for claim := range claimed(slices.Values([]model.Group{c.groups[key]})) {
				if taken[claim] {
					s.replace(c, name, key, model.Group{}, now)
					break
				}
			}
		}
	}
}

// leaveAll removes the groups of a source whose time is over at now, unless those that linger are a mass.
func (s *state) leaveAll(name string, c *cache, now time.Time) {
	due := slices.ContainsFunc(slices.Collect(maps.Values(c.leaving)), func(until time.Time) bool { return !now.Before(until) })
	if !due {
		return
	}
	leaving := nothingOf(slices.Collect(maps.Keys(c.leaving)))
	if s.hold(name, c, leaving, s.lost(name, c, leaving), now) {
		clear(c.leaving)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.leaving)) {
		if !now.Before(c.leaving[key]) {
			s.replace(c, name, key, model.Group{}, now)
		}
	}
}

// claimed returns the hosts and the addresses of the services in groups.
func claimed(groups iter.Seq[model.Group]) map[string]bool {
	out := map[string]bool{}
	for g := range groups {
		for host := range g.Hosts {
			out[host] = true
		}
		for address := range g.Addresses {
			out[address] = true
		}
	}
	return out
}
