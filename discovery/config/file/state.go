package file

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// state holds the files as they were read, and the objects that were sent. apply uses no clock and reads no file.
type state struct {
	wipeDelay   time.Duration
	files       map[string]*parsed
	size        int64                       // of all files, in bytes
	faulty      map[string]bool             // names of files with an error
	claims      map[string][]string         // by key: names of the files that declare it, or may, sorted
	duplicates  map[string][]config.Problem // by key: errors of files that declare an object of another file
	objects     map[string]*model.Object    // by key: the objects that were sent
	conflicting map[string][]*model.Object  // by key: further policies of the name that were sent with them
	kinds       map[string]int              // how many of objects are of each kind
	missing     map[string]bool             // keys of objects that were sent and are no longer in any file
	held        hold                        // why those are still served
	waiting     map[string]waiting          // by name: files with a new form that is not applied yet
}

func newState(wipeDelay time.Duration) *state {
	return &state{
		wipeDelay: wipeDelay, files: map[string]*parsed{}, faulty: map[string]bool{}, claims: map[string][]string{}, duplicates: map[string][]config.Problem{},
		objects: map[string]*model.Object{}, conflicting: map[string][]*model.Object{},
		kinds: map[string]int{}, missing: map[string]bool{}, waiting: map[string]waiting{},
	}
}

// scan is the result of a look at the files.
type scan struct {
	files   []*parsed // new files, and files that may have changed
	deleted []string  // names of files that no longer exist
}

// outcome holds the changes after a look, or after some time.
type outcome struct {
	groups   map[string]model.Group
	problems []config.Problem // new ones
	hold     string           // text about objects that are held from now on, or no longer; empty for no change
	certain  bool             // groups has objects that were held, and are gone
	wakeAt   time.Time        // when to look again even if nothing changes; zero for never
}

// apply applies a look.
func (s *state) apply(l scan, now time.Time) outcome {
	out := outcome{groups: map[string]model.Group{}}
	changed := map[string]bool{}
	for _, p := range l.files {
		if was := s.files[p.name]; s.finished(was, p, now) {
			out.problems = append(out.problems, newProblems(was, p)...)
			s.replace(p.name, was, p, changed)
		}
	}
	for _, name := range l.deleted {
		delete(s.waiting, name)
		s.replace(name, s.files[name], nil, changed)
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		known := s.duplicates[key]
		s.choose(key, out.groups)
		for _, p := range s.duplicates[key] {
			if !slices.Contains(known, p) {
				out.problems = append(out.problems, p)
			}
		}
	}
	if len(changed) > 0 || s.held.since != (time.Time{}) {
		out.hold, out.certain = s.removeMissing(out.groups, now)
	}
	out.wakeAt = s.wakeAt(now)
	return out
}

// newProblems returns the problems that a file did not have before.
func newProblems(was, p *parsed) []config.Problem {
	if was == nil || len(was.problems) == 0 {
		return p.problems
	}
	known := map[config.Problem]bool{}
	for _, old := range was.problems {
		known[old] = true
	}
	return slices.DeleteFunc(slices.Clone(p.problems), func(p config.Problem) bool { return known[p] })
}

// replace replaces a form of a file by a new one, nil for none. It adds to changed the keys whose declarations changed.
func (s *state) replace(name string, was, is *parsed, changed map[string]bool) {
	if was == nil {
		was = &parsed{}
	}
	if s.files[name] = is; is == nil {
		is = &parsed{}
		delete(s.files, name)
	}
	s.size += is.stat.Size - was.stat.Size
	if delete(s.faulty, name); is.unreadable > 0 || len(is.refused) > 0 {
		s.faulty[name] = true
	}
	for key := range was.names {
		if !is.has(key) {
			changed[key] = true
			s.claims[key] = slices.DeleteFunc(s.claims[key], func(n string) bool { return n == name })
		}
	}
	for key := range is.names {
		if !was.has(key) {
			at, _ := slices.BinarySearch(s.claims[key], name)
			s.claims[key] = slices.Insert(s.claims[key], at, name)
		} else if o := is.object(key); o != nil && o == was.object(key) && is.declared[key] == was.declared[key] &&
			slices.Equal(is.conflicting[key], was.conflicting[key]) {
			continue
		}
		changed[key] = true
	}
}

// choose decides which object has a key: of two files that declare it, the first one by name wins. An object that is
// refused, or that may be in a part that cannot be read, stays as it was sent; in the latter case a valid one of
// another file wins. The others of its name count next to it as model.StandIn says.
func (s *state) choose(key string, groups map[string]model.Group) {
	var first, kept, moved *model.Object
	var closed, twins []*model.Object
	var duplicates []config.Problem
	for _, name := range s.claims[key] {
		f := s.files[name]
		switch o := f.declared[key]; {
		case o == nil:
			kept = cmp.Or(kept, f.kept[key])
			if line, refused := f.refused[key]; refused && moved == nil && s.objects[key] != nil && !s.objects[key].Closed {
				moved = at(s.objects[key], name, line)
			}
			if f.closed[key] != nil {
				closed = append(closed, f.closed[key])
			}
		case first != nil:
			duplicates = append(duplicates, config.Duplicate(o, first))
			twins = append(twins, o)
		default:
			first = o
		}
		twins = append(twins, f.conflicting[key]...)
	}
	if delete(s.duplicates, key); len(duplicates) > 0 {
		s.duplicates[key] = duplicates
	}
	if len(s.claims[key]) == 0 {
		delete(s.claims, key)
	}
	o, was := cmp.Or(first, kept), s.objects[key]
	switch {
	case o != nil:
		twins = append(twins, closed...)
	case moved != nil:
		o = moved
	case len(closed) > 0:
		o, twins = closed[0], append(twins, closed[1:]...)
	}
	if o == nil {
		if was != nil {
			s.missing[key] = true
		}
		return
	}
	delete(s.missing, key)
	twins = slices.DeleteFunc(twins, func(t *model.Object) bool { return model.StandIn(o, t) == nil })
	same := slices.EqualFunc(s.conflicting[key], twins, unchanged)
	if s.conflicting[key] = twins; len(twins) == 0 {
		delete(s.conflicting, key)
	}
	if was != nil && same && unchanged(was, o) {
		return
	}
	if was != nil && proto.Equal(was.Spec.(proto.Message), o.Spec.(proto.Message)) {
		o = &model.Object{Meta: o.Meta, Spec: was.Spec, Warnings: o.Warnings} // the same message, so that resources made from it can be reused
	}
	if was == nil {
		s.kinds[objectKind(key)]++
	}
	s.objects[key] = o
	groups[key] = model.Group{Objects: append([]*model.Object{o}, twins...)}
}

// unchanged reports whether an object is as it was sent.
func unchanged(was, o *model.Object) bool {
	return was.Origin == o.Origin && was.Created.Equal(o.Created) && maps.Equal(was.Labels, o.Labels) && was.DryRun == o.DryRun && was.Closed == o.Closed &&
		was.Warnings.Same(o.Warnings) && proto.Equal(was.Spec.(proto.Message), o.Spec.(proto.Message))
}

// problems returns all problems, ordered by file and line.
func (s *state) problems() []config.Problem {
	duplicates := map[string][]config.Problem{}
	for _, key := range slices.Sorted(maps.Keys(s.duplicates)) {
		for _, p := range s.duplicates[key] {
			duplicates[p.File] = append(duplicates[p.File], p)
		}
	}
	var out []config.Problem
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		all := append(slices.Clone(s.files[name].problems), duplicates[name]...)
		sort.SliceStable(all, func(i, j int) bool { return all[i].Line < all[j].Line })
		out = append(out, all...)
	}
	return out
}

// Check returns the objects of files that would be served, and all problems.
func Check(files []File) (objects []*model.Object, problems []config.Problem) {
	s := newState(0)
	s.apply(scan{files: parse(func(string) *parsed { return nil }, files)}, time.Time{})
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		objects = append(append(objects, s.objects[key]), s.conflicting[key]...)
	}
	return objects, s.problems()
}

// hold is the reason why objects are served that are no longer in any file: so many disappeared at once that it may be
// an accident. They are removed when the time is over, and stay if the files return.
type hold struct {
	since, until time.Time // zero for no hold
	what         string    // the objects that disappeared, as a text
	asked        bool      // an operator has asked to end it
}

// removeMissing removes objects that are no longer in any file, unless they must be held. It returns a text about
// objects that are held from now on, or no longer, and whether objects are removed that were held. With the last object the
// server holds them instead, since it remembers over a restart what there was: see model.Update's Emptied.
func (s *state) removeMissing(groups map[string]model.Group, now time.Time) (message string, certain bool) {
	what := ""
	if len(s.missing) > 0 && s.wipeDelay > 0 {
		what = wipe(s.objects, s.missing)
	}
	was := s.held
	switch {
	case s.emptied():
		s.held = hold{}
	case what == "":
		s.held = hold{}
		if was.what != "" {
			message = "no longer held, for files are back: " + was.what
		}
	case was.what == "":
		s.held = hold{since: now, until: now.Add(s.wipeDelay), what: what}
		return fmt.Sprintf("held for %s, for it may be an accident: %s gone at once", s.wipeDelay, what), false
	case was.asked:
		s.held = hold{}
		message, certain = "no longer held, as an operator has asked: "+what, true
	case now.Before(was.until):
		s.held.what = what
		return "", false
	default:
		s.held = hold{}
		message, certain = "no longer held, for the time is over: "+what, true
	}
	for key := range s.missing {
		delete(s.objects, key)
		delete(s.conflicting, key)
		s.kinds[objectKind(key)]--
		groups[key] = model.Group{}
	}
	clear(s.missing)
	return message, certain
}

// emptied reports whether the files are left without any object, though some may be served still.
func (s *state) emptied() bool {
	return len(s.claims) == 0 && len(s.faulty) == 0 && len(s.missing) == len(s.objects)
}

// wipe returns a text about the objects that disappear, if they are a mass as of any source; else "".
func wipe(objects map[string]*model.Object, gone map[string]bool) string {
	var losses model.Losses
	had := model.NewCensus()
	for key, o := range objects {
		group := model.Group{Objects: []*model.Object{o}}
		if had.Count(group, 1); gone[key] {
			losses.Add(group, model.Group{})
		}
	}
	return losses.Mass("services", had, nil, false)
}

// unreadableGroups returns a group for each file that never had a form whose objects were all known: discovery may have
// served objects of it before its start.
func (s *state) unreadableGroups() map[string]model.Group {
	out := map[string]model.Group{}
	for name := range s.faulty {
		f := s.files[name]
		if !f.neverRead {
			continue
		}
		group := model.Group{Unread: true}
		for _, p := range f.problems {
			if p.Severity == config.Error && len(group.Faults) == 0 {
				group.Faults = []string{fmt.Sprintf("line %d: %s", p.Line, strings.TrimSpace(p.Path+" "+p.Message))}
			}
		}
		out["file "+name] = group
	}
	return out
}

// compare returns the groups that differ, empty ones for those that are gone.
func compare(was, now map[string]model.Group) map[string]model.Group {
	out := map[string]model.Group{}
	for key, group := range now {
		if !slices.Equal(was[key].Faults, group.Faults) {
			out[key] = group
		}
	}
	for key := range was {
		if _, is := now[key]; !is {
			out[key] = model.Group{}
		}
	}
	return out
}

// refused returns the keys of objects that have an error, and no good form that was read.
func (s *state) refused() []string {
	out := map[string]bool{}
	for name := range s.faulty {
		for key := range s.files[name].refused {
			if s.objects[key] == nil {
				out[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// A file that is being written is not complete. Its new form is applied after this time without a write:
const (
	lossWait  = time.Second            // if it holds less than before: it may have been truncated in order to be written again
	writeWait = 30 * time.Second       // if a process has it open for writing; otherwise it is applied at once
	writePoll = 200 * time.Millisecond // how often to check whether a process has it open: there is no event for a close
)

// waiting is a file with a new form that is not applied yet.
type waiting struct {
	stat  Stat
	since time.Time // of these figures
	until time.Time // when it is applied, unless it changes
}

// done reports whether to read the one file of a source, with a new form or not, now.
func (w *waiting) done(stat Stat, now time.Time) bool {
	if !w.stat.same(stat) {
		w.stat, w.since = stat, now
	}
	return !stat.Writing || now.Sub(w.since) >= writeWait
}

// finished reports whether to apply the new form of a file now. If not, the file waits.
func (s *state) finished(was, p *parsed, now time.Time) bool {
	w, waits := s.waiting[p.name]
	if !waits || !w.stat.same(p.stat) {
		w.since = now
	}
	w.stat, w.until = p.stat, now
	switch {
	case p.stat.Writing:
		w.until = w.since.Add(writeWait)
	case p.unfinished:
		w.until = now.Add(writePoll) // it must be read first
	case was != nil && p.drops(was):
		if w.until = w.since.Add(lossWait); p.stat.Modified.Before(w.since) {
			w.until = p.stat.Modified.Add(lossWait)
		}
	}
	if !w.until.After(now) {
		delete(s.waiting, p.name)
		return true
	}
	s.waiting[p.name] = w
	return false
}

// skipsRead reports whether a file that is being written need not be read yet.
func (s *state) skipsRead(name string, stat Stat, now time.Time) bool {
	w, waits := s.waiting[name]
	return !waits || !w.stat.same(stat) || now.Before(w.since.Add(writeWait))
}

// wakeAt returns when to look again even if no file changes.
func (s *state) wakeAt(now time.Time) time.Time {
	next := s.held.until
	for _, w := range s.waiting {
		at := w.until
		if w.stat.Writing {
			at = now.Add(writePoll)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// waitingFiles returns the files to read again at wakeAt.
func (s *state) waitingFiles() []string { return slices.Sorted(maps.Keys(s.waiting)) }

// unwritten reports whether no file waits for the end of a write: until then the first mesh would be incomplete.
func (s *state) unwritten() bool {
	for name, w := range s.waiting {
		if w.stat.Writing && s.files[name] == nil {
			return false
		}
	}
	return true
}
