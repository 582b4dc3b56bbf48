package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// group is a model.Group or a secret.Group.
type group[G any] interface {
	Len() int        // the number of things in it; 0 for a record that is gone, or malformed
	Malformed() bool // no part of the record could be read
	Same(G) bool
}

// cacheOf holds the last groups of one source, and the state of the source itself.
type cacheOf[U any, G group[G]] struct {
	life[U]
	groups map[string]G
	count  func(G, int) // of a group that comes, 1, or goes, -1; nil for no count
	keys   []string     // sorted: those of groups when ordered was called last
	added  []string     // to groups since then
}

// ordered returns the keys of the groups in their order. Only those that were added since the last call are sorted.
func (c *cacheOf[U, G]) ordered() []string {
	if len(c.added) == 0 && len(c.keys) == len(c.groups) {
		return c.keys
	}
	slices.Sort(c.added)
	out, old := make([]string, 0, len(c.groups)), c.keys
	add := func(key string) {
		if _, still := c.groups[key]; still && (len(out) == 0 || out[len(out)-1] != key) {
			out = append(out, key)
		}
	}
	for _, key := range c.added {
		for ; len(old) > 0 && old[0] <= key; old = old[1:] {
			add(old[0])
		}
		add(key)
	}
	for _, key := range old {
		add(key)
	}
	c.keys, c.added = out, nil
	return out
}

// take applies a record that the source has sent, and returns the group before it. changed is false if the record is
// the same, or malformed: then the last good one stays.
func (c *cacheOf[U, G]) take(key string, now G) (before G, changed bool) {
	before, had := c.groups[key]
	switch {
	case now.Malformed(), had && now.Len() > 0 && now.Same(before):
		return before, false
	case now.Len() > 0:
		c.status.Objects += now.Len() - before.Len()
		c.counted(before, now)
		if c.groups[key] = now; !had {
			c.added = append(c.added, key)
			if len(c.added) > len(c.groups)+64 { // keys that are gone again
				c.ordered()
			}
		}
		return before, true
	default:
		c.drop(key)
		return before, had
	}
}

func (c *cacheOf[U, G]) drop(key string) {
	before := c.groups[key]
	c.status.Objects -= before.Len()
	delete(c.groups, key)
	var nothing G
	c.counted(before, nothing)
}

// counted counts a group that another one replaces.
func (c *cacheOf[U, G]) counted(before, now G) {
	if c.count != nil {
		c.count(before, -1)
		c.count(now, 1)
	}
}

// deleted returns the keys of groups that the source had in an earlier run and has not sent again, now that it has
// synced. It forgets the faults of such records.
func (c *cacheOf[U, G]) deleted() []string {
	if c.resent == nil {
		return nil
	}
	var out []string
	for key := range c.groups {
		if !c.resent[key] {
			out = append(out, key)
		}
	}
	for key := range c.faults {
		if !c.resent[key] {
			c.read(key, nil)
		}
	}
	c.resent = nil
	slices.Sort(out)
	return out
}

// cache is the cache of a source of the mesh.
type cache struct {
	cacheOf[model.Update, model.Group]
	census *model.Census // of its groups

	held hold

	stranded map[string]bool // policies that the source no longer has, since it is left without any object: see Update.Emptied

	leaving map[string]time.Time // groups that the source no longer has, until when they are served: see linger

	memory memory
	kept   kept

	broken broken
}

func newCache() *cache {
	census := model.NewCensus()
	return &cache{
		cacheOf: cacheOf[model.Update, model.Group]{groups: map[string]model.Group{}, count: census.Count}, census: census,
		held: newHold(), stranded: map[string]bool{}, leaving: map[string]time.Time{},
		broken: broken{keys: map[string]bool{}, changed: true},
	}
}

// good reports whether a record has a form without faults.
func (c *cache) good(key string) bool {
	g, had := c.groups[key]
	return had && !g.Closed()
}

// remove removes the source. Its groups stay.
func (c *cache) remove(name string) {
	c.feed, c.faults, c.unread = nil, map[string][]string{}, map[string]bool{}
	clear(c.leaving)
	clear(c.stranded)
	c.memory = memory{}
	c.status = SourceStatus{Name: name, State: SourceRemoved, Objects: c.status.Objects, Changed: c.status.Changed}
}

// report returns the source's status.
func (c *cache) report() SourceStatus {
	out := c.cacheOf.report()
	if out.Held = len(c.held.groups); out.Held > 0 {
		out.Lost, out.Since, out.Until = c.held.lost, c.held.since, c.held.until
	}
	out.Stranded = len(c.stranded)
	if c.memory.remembered() {
		out.Remembered, out.RememberedAt = len(c.memory.old), c.memory.at
		out.Age = c.memory.age.Round(time.Second).String()
	}
	return out
}

// forget forgets which groups are held. They are served until something else removes them.
func (c *cache) forget() { c.held = newHold() }

// toKeep returns what is kept of the source for the next start.
func (c *cache) toKeep() map[string]model.Group {
	out := maps.Clone(c.groups)
	for key := range c.stranded {
		group := out[key]
		group.Stranded = true
		out[key] = group
	}
	return out
}

// nothingOf returns empty groups: what a source has of records that are gone.
func nothingOf(keys []string) map[string]model.Group {
	out := make(map[string]model.Group, len(keys))
	for _, key := range keys {
		out[key] = model.Group{}
	}
	return out
}

// life is the state of a source itself, without its groups. It reads no clock.
type life[U any] struct {
	feed   *feedOf[U]          // nil when the source was removed, and its groups are held
	faults map[string][]string // of records that are malformed, by key
	unread map[string]bool     // keys of parts that cannot be read: see model.Group

	// resent holds the keys that the source has sent since it was started, until it has synced: a group that it does
	// not send again was deleted while the source was not running. Nil after that.
	resent map[string]bool

	required bool      // there is no first mesh without the source
	deadline time.Time // the first mesh waits for the source until then; zero for ever
	settled  bool      // it has synced, or ended, at least once
	failed   time.Time // since when it has not synced after an error; zero for an error-free source
	logged   time.Time // when the log last told this
	status   SourceStatus
}

// logAgain is how often the log repeats that a source fails: it may be started again every few seconds, for hours.
const logAgain = 10 * time.Minute

func (l *life[U]) current() *feedOf[U] { return l.feed }

// begin makes the life one of another feed. Its groups, and so their number, stay.
func (l *life[U]) begin(f *feedOf[U], deadline time.Time) {
	l.feed, l.settled, l.deadline, l.faults, l.unread = f, false, deadline, map[string][]string{}, map[string]bool{}
	l.failed = time.Time{}
	l.status = SourceStatus{Name: f.name, State: SourceSyncing, Objects: l.status.Objects, Changed: l.status.Changed}
}

// started records that the source runs, and sends all its records again.
func (l *life[U]) started() {
	if l.resent = map[string]bool{}; l.status.State == SourceFailed {
		l.status.Restarts++
	}
	l.status.State = SourceSyncing
}

// ended records the end of the source, with its error. It returns the level at which the log tells the error: after the
// first one debug, until the source has synced or logAgain has passed.
func (l *life[U]) ended(err error, now time.Time) slog.Level {
	if err == nil {
		l.status.State, l.settled = SourceEnded, true
		return slog.LevelDebug
	}
	l.status.State, l.status.Error, l.status.ErrorTime = SourceFailed, err.Error(), now
	if l.failed.IsZero() {
		l.failed, l.logged = now, time.Time{}
	}
	if !l.logged.IsZero() && now.Sub(l.logged) < logAgain {
		return slog.LevelDebug
	}
	l.logged = now
	return slog.LevelError
}

// synced records that the source has sent its whole initial state. It reports whether its deadline had passed, and how
// long the source has failed; zero for not at all.
func (l *life[U]) synced(now time.Time) (late bool, failed time.Duration) {
	for key := range l.unread {
		if l.resent != nil && !l.resent[key] {
			delete(l.unread, key) // of an earlier run
		}
	}
	late = l.status.Late
	if !l.failed.IsZero() {
		failed = now.Sub(l.failed)
	}
	l.status.State, l.status.Late, l.settled, l.failed = SourceSynced, false, true, time.Time{}
	return late, failed
}

// whole reports whether the source has synced, and no part of it is unread.
func (l *life[U]) whole() bool { return l.settled && len(l.unread) == 0 }

// pending reports whether the source has neither synced nor passed its deadline.
func (l *life[U]) pending() bool { return l.feed != nil && !l.settled && !l.status.Late }

// expire records that the deadline has passed, and reports it once.
func (l *life[U]) expire(now time.Time) bool {
	if !l.pending() || l.deadline.IsZero() || now.Before(l.deadline) {
		return false
	}
	l.status.Late = true
	return true
}

// read records that the source has sent a record, with its faults, and reports whether these are others than before.
func (l *life[U]) read(key string, faults []string) bool {
	l.stands(key)
	if slices.Equal(l.faults[key], faults) {
		return false
	}
	if l.faults[key] = faults; len(faults) == 0 {
		delete(l.faults, key)
	}
	l.status.Malformed, l.status.Unread = nil, nil // report makes them again
	return true
}

// part records that the source has sent a group, and whether it is one of a part that cannot be read.
func (l *life[U]) part(key string, unread bool) {
	if l.unread[key] == unread {
		return
	}
	if l.unread[key] = unread; !unread {
		delete(l.unread, key)
	}
	l.status.Malformed, l.status.Unread = nil, nil
}

// stands records that the source still has a record.
func (l *life[U]) stands(key string) {
	if l.resent != nil {
		l.resent[key] = true
	}
}

// report returns the status.
func (l *life[U]) report() SourceStatus {
	if l.status.Malformed == nil && l.status.Unread == nil && len(l.faults) > 0 {
		for _, key := range slices.Sorted(maps.Keys(l.faults)) {
			to := &l.status.Malformed
			if l.unread[key] {
				to = &l.status.Unread
			}
			for _, fault := range l.faults[key] {
				*to = append(*to, fmt.Sprintf("%s: %s", key, fault))
			}
		}
	}
	out := l.status
	out.Required = l.required
	return out
}

// message is a line of the log.
type message struct {
	level slog.Level
	text  string
	args  []any
}

// journal keeps messages for the log.
type journal struct{ messages []message }

func (j *journal) log(level slog.Level, text string, args ...any) {
	j.messages = append(j.messages, message{level, text, args})
}

// write writes the messages, and forgets them.
func (j *journal) write(ctx context.Context, log *slog.Logger) {
	for _, m := range j.messages {
		log.Log(ctx, m.level, m.text, m.args...)
	}
	j.messages = nil
}
