package file

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// state is what the store knows and has told. It knows no clock and reads no file.
type state struct {
	wipeDelay time.Duration
	files     map[string]*parsed
	size      int64                       // of all files, in bytes
	faulty    map[string]bool             // names of files with something to refuse
	claims    map[string][]string         // by key: the files that say something of it, by name
	again     map[string][]config.Problem // by key: that files declare what another one has declared
	objects   map[string]*model.Object    // by key: what was told
	kinds     map[string]int              // how many of objects are of each kind
	gone      map[string]bool             // keys of objects that were told and are in no file any more
	held      hold                        // why they are told still
	waiting   map[string]waiting          // by name: files with a new form that is not taken yet
}

func newState(wipeDelay time.Duration) *state {
	return &state{
		wipeDelay: wipeDelay, files: map[string]*parsed{}, faulty: map[string]bool{}, claims: map[string][]string{}, again: map[string][]config.Problem{},
		objects: map[string]*model.Object{}, kinds: map[string]int{}, gone: map[string]bool{}, waiting: map[string]waiting{},
	}
}

// look is what a look at the files found.
type look struct {
	files []*parsed // those that are new, or may have changed
	gone  []string  // names of those that are not there any more
}

// outcome is what a look, or time, has changed.
type outcome struct {
	groups   map[string]model.Group
	problems []config.Problem // that were not there before
	hold     string           // what is held from now on, or is no longer, in words; empty for no change
	again    time.Time        // when to look again though nothing changes; zero for never
}

// apply takes what was found to the next state.
func (s *state) apply(l look, now time.Time) outcome {
	out := outcome{groups: map[string]model.Group{}}
	changed := map[string]bool{}
	for _, p := range l.files {
		if was := s.files[p.name]; s.finished(was, p, now) {
			out.problems = append(out.problems, news(was, p)...)
			s.replace(p.name, was, p, changed)
		}
	}
	for _, name := range l.gone {
		delete(s.waiting, name)
		s.replace(name, s.files[name], nil, changed)
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		known := s.again[key]
		s.choose(key, out.groups)
		for _, p := range s.again[key] {
			if !slices.Contains(known, p) {
				out.problems = append(out.problems, p)
			}
		}
	}
	if len(changed) > 0 || s.held.since != (time.Time{}) {
		out.hold = s.guard(out.groups, now)
	}
	out.again = s.next(now)
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

// replace puts a new form of a file, nil for none, in the place of another one. It adds the keys of which the files say
// something else now.
func (s *state) replace(name string, was, is *parsed, changed map[string]bool) {
	if was == nil {
		was = &parsed{}
	}
	if s.files[name] = is; is == nil {
		is = &parsed{}
		delete(s.files, name)
	}
	s.size += is.stat.Size - was.stat.Size
	if delete(s.faulty, name); is.lost > 0 || len(is.refused) > 0 {
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
		} else if o := is.object(key); o != nil && o == was.object(key) && is.declared[key] == was.declared[key] {
			continue
		}
		changed[key] = true
	}
}

// choose says which object a key is now: of two files that declare it the first one's, by name. An object that is
// refused, or may be in what cannot be read, stays as it was told; a sound one of another file goes before the latter.
func (s *state) choose(key string, groups map[string]model.Group) {
	var first, kept *model.Object
	var again []config.Problem
	for _, name := range s.claims[key] {
		f := s.files[name]
		switch o := f.declared[key]; {
		case o == nil:
			kept = cmp.Or(kept, f.kept[key])
			if line, refused := f.refused[key]; refused && kept == nil && s.objects[key] != nil {
				kept = at(s.objects[key], name, line)
			}
		case first != nil:
			again = append(again, config.Again(o, first))
		default:
			first = o
		}
	}
	if delete(s.again, key); len(again) > 0 {
		s.again[key] = again
	}
	if len(s.claims[key]) == 0 {
		delete(s.claims, key)
	}
	o, was := cmp.Or(first, kept), s.objects[key]
	if o == nil {
		if was != nil {
			s.gone[key] = true
		}
		return
	}
	delete(s.gone, key)
	if was != nil && proto.Equal(was.Spec.(proto.Message), o.Spec.(proto.Message)) {
		if was.Origin == o.Origin && was.Created.Equal(o.Created) && maps.Equal(was.Labels, o.Labels) {
			return
		}
		o = &model.Object{Meta: o.Meta, Spec: was.Spec} // whoever made something of it knows it again
	}
	if was == nil {
		s.kinds[objectKind(key)]++
	}
	s.objects[key] = o
	groups[key] = model.Group{Objects: []*model.Object{o}}
}

// problems returns all that is wrong, by file.
func (s *state) problems() []config.Problem {
	again := map[string][]config.Problem{}
	for _, key := range slices.Sorted(maps.Keys(s.again)) {
		for _, p := range s.again[key] {
			again[p.File] = append(again[p.File], p)
		}
	}
	var out []config.Problem
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		all := append(slices.Clone(s.files[name].problems), again[name]...)
		slices.SortStableFunc(all, func(a, b config.Problem) int { return cmp.Compare(a.Line, b.Line) })
		out = append(out, all...)
	}
	return out
}

// Check returns the objects that would be served of files, and all that is wrong with them.
func Check(files []File) (objects []*model.Object, problems []config.Problem) {
	s := newState(0)
	s.apply(look{files: parse(func(string) *parsed { return nil }, files)}, time.Time{})
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		objects = append(objects, s.objects[key])
	}
	return objects, s.problems()
}
