package file

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// File is one file as it was read.
type File struct {
	Name string // as problems call it
	Data []byte
	Err  error // why there is no Data
}

// state is what the store knows and has told.
type state struct {
	files   map[string]parsed
	objects map[string]*model.Object // by key
}

// parsed is one file's outcome.
type parsed struct {
	hash     [sha256.Size]byte
	objects  []*model.Object // the last good ones
	problems []config.Problem
}

// plan takes the files that are there now to the next state, the groups that differ from the last one, and all that is
// wrong with the files.
func plan(last state, files []File) (state, map[string]model.Group, []config.Problem) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	next := state{files: map[string]parsed{}, objects: map[string]*model.Object{}}
	var problems []config.Problem
	for _, f := range files {
		p := parse(last.files[f.Name], f)
		next.files[f.Name] = p
		problems = append(problems, p.problems...)
		for _, o := range p.objects {
			if first, taken := next.objects[o.Key()]; taken {
				problems = append(problems, config.Again(o, first))
				continue
			}
			next.objects[o.Key()] = o
		}
	}
	return next, diff(last.objects, next.objects), problems
}

// parse decodes a file unless its bytes are the same as before. The last good objects of a bad one stay.
func parse(last parsed, f File) parsed {
	if f.Err != nil {
		fault := config.Problem{File: f.Name, Severity: config.Error, Message: f.Err.Error()}
		return parsed{objects: last.objects, problems: []config.Problem{fault}}
	}
	next := parsed{hash: sha256.Sum256(f.Data)}
	if next.hash == last.hash {
		return last
	}
	next.objects, next.problems = config.Decode(f.Name, f.Data)
	if config.HasErrors(next.problems) {
		next.objects = last.objects
	}
	return next
}

// diff returns the groups that are new or not the same, and empty ones for those that are gone.
func diff(last, next map[string]*model.Object) map[string]model.Group {
	groups := map[string]model.Group{}
	for key, o := range next {
		if was, ok := last[key]; !ok || !equal(was, o) {
			groups[key] = model.Group{Objects: []*model.Object{o}}
		}
	}
	for key := range last {
		if _, ok := next[key]; !ok {
			groups[key] = model.Group{}
		}
	}
	return groups
}

// equal holds for objects of equal content from the same lines: an origin that people are shown must be true.
func equal(a, b *model.Object) bool {
	return a == b || a.Origin == b.Origin && a.Created.Equal(b.Created) &&
		proto.Equal(a.Spec.(proto.Message), b.Spec.(proto.Message))
}

// Check returns the objects that would be served of files, and all that is wrong with them.
func Check(files []File) (objects []*model.Object, problems []config.Problem) {
	next, _, problems := plan(state{}, files)
	for _, key := range slices.Sorted(maps.Keys(next.objects)) {
		objects = append(objects, next.objects[key])
	}
	return objects, problems
}
