package file

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// state holds the files as they were read, and the objects that were sent. apply uses no clock and reads no file.
type state struct {
	wipeDelay  time.Duration
	files      map[string]*parsed
	size       int64                       // of all files, in bytes
	faulty     map[string]bool             // names of files with an error
	claims     map[string][]string         // by key: names of the files that declare it, or may, sorted
	duplicates map[string][]config.Problem // by key: errors of files that declare an object of another file
	objects    map[string]*model.Object    // by key: the objects that were sent
	twins      map[string][]*model.Object  // by key: further policies of the name that were sent with them
	kinds      map[string]int              // how many of objects are of each kind
	missing    map[string]bool             // keys of objects that were sent and are no longer in any file
	held       hold                        // why those are still served
	waiting    map[string]waiting          // by name: files with a new form that is not applied yet
}

func newState(wipeDelay time.Duration) *state {
	return &state{
		wipeDelay: wipeDelay, files: map[string]*parsed{}, faulty: map[string]bool{}, claims: map[string][]string{}, duplicates: map[string][]config.Problem{},
		objects: map[string]*model.Object{}, twins: map[string][]*model.Object{}, kinds: map[string]int{}, missing: map[string]bool{}, waiting: map[string]waiting{},
	}
}

// look is the result of a look at the files.
type look struct {
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
func (s *state) apply(l look, now time.Time) outcome {
	out := outcome{groups: map[string]model.Group{}}
	changed := map[string]bool{}
	for _, p := range l.files {
		if was := s.files[p.name]; s.finished(was, p, now) {
			out.problems = append(out.problems, news(was, p)...)
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

// news returns the problems that a file did not have before.
func news(was, p *parsed) []config.Problem {
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
		} else if o := is.object(key); o != nil && o == was.object(key) && is.declared[key] == was.declared[key] && slices.Equal(is.twins[key], was.twins[key]) {
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
		twins = append(twins, f.twins[key]...)
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
	same := slices.EqualFunc(s.twins[key], twins, unchanged)
	if s.twins[key] = twins; len(twins) == 0 {
		delete(s.twins, key)
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
	s.apply(look{files: parse(func(string) *parsed { return nil }, files)}, time.Time{})
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		objects = append(append(objects, s.objects[key]), s.twins[key]...)
	}
	return objects, s.problems()
}
