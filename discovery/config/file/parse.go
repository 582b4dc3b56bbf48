package file

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// File is one file as it was read.
type File struct {
	Name string // its name in problems
	Data []byte
	Stat Stat
	Err  error // why there is no Data

	Passed     error // why it is passed over, though it looks like configuration: it was not read
	Unfinished bool  // a process is writing it, so it was not read
}

// parsed is a decoded file. It is immutable.
type parsed struct {
	name       string
	stat       Stat
	unfinished bool // it was not read: only name and stat are set
	documents  []document
	problems   []config.Problem

	declared    map[string]*model.Object   // by key: its objects, and the last good form of those with an error
	kept        map[string]*model.Object   // objects that a document which cannot be read may still hold
	closed      map[string]*model.Object   // closed forms of policies that have an error and no good form
	conflicting map[string][]*model.Object // further policies of a name, in their closed forms where they have an error
	refused     map[string]int             // the line of each object that has an error and no good form; by key
	unreadable  int                        // documents, or the file, whose objects are not known
	neverRead   bool                       // that is so since the start: no form of it was known whole
}

// document is a part of a file with its decoded items.
type document struct {
	hash  [sha256.Size]byte
	line  int
	items []config.Item // at their lines of the file
}

// parse decodes the documents of files that were not in the file before, several at a time.
func parse(last func(name string) *parsed, files []File) []*parsed {
	out := make([]*parsed, len(files))
	var todo []func(*config.Reader)
	for i, f := range files {
		was := last(f.Name)
		if was == nil {
			was = &parsed{name: f.Name}
		}
		p := &parsed{name: f.Name, stat: f.Stat}
		out[i] = p
		if f.Err != nil || f.Passed != nil || f.Unfinished {
			p.unfinished = f.Unfinished
			continue
		}
		known := map[[sha256.Size]byte]*document{}
		for i := range was.documents {
			known[was.documents[i].hash] = &was.documents[i]
		}
		documents := config.Split(f.Data)
		p.documents = make([]document, len(documents))
		for i, d := range documents {
			todo = append(todo, func(r *config.Reader) { p.documents[i] = decode(r, f.Name, d, known) })
		}
	}
	inParallel(todo)
	for i, f := range files {
		if !f.Unfinished {
			out[i].resolve(last(f.Name), f.Err)
		}
		if f.Passed != nil {
			out[i].problems = []config.Problem{{File: f.Name, Severity: config.Warning, Message: f.Passed.Error()}}
		}
	}
	return out
}

// inParallel runs functions that only use the CPU.
func inParallel(todo []func(*config.Reader)) {
	const each = 16 // functions that one goroutine runs with one Reader
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for part := range slices.Chunk(todo, each) {
		g.Go(func() error {
			var r config.Reader
			for _, do := range part {
				do(&r)
			}
			return nil
		})
	}
	_ = g.Wait() // none has an error
}

// decode reads a document. If the same bytes were read before, it only updates the positions of the items.
func decode(r *config.Reader, name string, d config.Document, known map[[sha256.Size]byte]*document) document {
	out := document{hash: sha256.Sum256(d.Data), line: d.Line}
	was, from := known[out.hash], d.Line
	switch {
	case was == nil:
		out.items = r.Read(d.Data)
	case was.line == d.Line:
		out.items = was.items
		return out
	default:
		out.items, from = was.items, d.Line-was.line+1
	}
	out.items = slices.Clone(out.items)
	for i, item := range out.items {
		out.items[i] = item.At(name, from)
	}
	return out
}

// resolve decides which objects the file declares, given its form before.
func (p *parsed) resolve(was *parsed, fault error) {
	if was == nil {
		was = &parsed{neverRead: true}
	}
	defer func() { p.neverRead = was.neverRead && p.unreadable > 0 }()
	p.declared, p.kept, p.refused = map[string]*model.Object{}, map[string]*model.Object{}, map[string]int{}
	p.closed, p.conflicting = map[string]*model.Object{}, map[string][]*model.Object{}
	if fault != nil { // it may be unchanged
		p.problems = []config.Problem{{File: p.name, Severity: config.Error, Message: fault.Error()}}
		p.documents, p.declared, p.kept, p.refused = was.documents, was.declared, was.kept, was.refused
		p.closed, p.conflicting = was.closed, was.conflicting
		p.unreadable = 1
		return
	}
	broken := map[string]int{}
	for _, d := range p.documents {
		for _, i := range d.items {
			p.problems = append(p.problems, i.Problems...)
			first := p.declared[i.Key]
			switch {
			case i.Object != nil && first != nil:
				p.problems = append(p.problems, config.Duplicate(i.Object, first))
				p.conflicting[i.Key] = append(p.conflicting[i.Key], i.Object)
			case i.Object != nil:
				p.declared[i.Key] = i.Object
			case i.Refused() && i.Key == "":
				p.unreadable++
			case i.Refused():
				switch broken[i.Key] = i.Line; {
				case i.Closed == nil:
				case p.closed[i.Key] != nil:
					p.conflicting[i.Key] = append(p.conflicting[i.Key], i.Closed)
				default:
					p.closed[i.Key] = i.Closed
				}
			}
		}
	}
	for key, line := range broken {
		switch good := was.object(key); {
		case p.declared[key] != nil:
			if closed := p.closed[key]; closed != nil {
				p.conflicting[key] = append(p.conflicting[key], closed)
			}
			delete(p.closed, key)
		case good != nil:
			delete(p.closed, key)
			p.declared[key] = at(good, p.name, line)
			p.refused[key] = line
		default:
			p.refused[key] = line
		}
	}
	if p.unreadable > 0 {
		maps.Copy(p.kept, was.declared)
		maps.Copy(p.kept, was.kept)
		for key, o := range was.closed {
			if _, again := p.refused[key]; !again && p.declared[key] == nil {
				p.closed[key] = o // it may be in the part that cannot be read
			}
		}
		for key, all := range was.conflicting {
			if len(p.conflicting[key]) == 0 {
				p.conflicting[key] = all
			}
		}
		maps.DeleteFunc(p.kept, func(key string, _ *model.Object) bool {
			_, refused := p.refused[key]
			return refused || p.declared[key] != nil
		})
	}
}

// object returns the object of the file that has a key, or nil.
func (p *parsed) object(key string) *model.Object {
	if o := p.declared[key]; o != nil {
		return o
	}
	return p.kept[key]
}

// has reports whether the file declares, refuses, or may hold an object with a key.
func (p *parsed) has(key string) bool {
	_, refused := p.refused[key]
	return refused || p.object(key) != nil || p.closed[key] != nil
}

// names yields the keys for which has is true.
func (p *parsed) names(yield func(string) bool) {
	for key := range p.declared {
		if !yield(key) {
			return
		}
	}
	for key := range p.kept {
		if !yield(key) {
			return
		}
	}
	for key := range p.refused {
		if p.declared[key] == nil && !yield(key) {
			return
		}
	}
	for key := range p.closed {
		if _, refused := p.refused[key]; !refused && !yield(key) {
			return
		}
	}
}

// drops reports whether an object of the form before is no longer in this one.
func (p *parsed) drops(was *parsed) bool {
	for key := range was.names {
		if !p.has(key) || len(p.conflicting[key]) < len(was.conflicting[key]) {
			return true
		}
	}
	return false
}

// at returns an object with another place of origin.
func at(o *model.Object, file string, line int) *model.Object {
	moved := *o
	moved.Origin.File, moved.Origin.Line = file, line
	return &moved
}

// Writable returns the objects of files as they are written, in their order, and the problems of all. Objects without a
// namespace get the given one. An object with an error, and the second of a name, are problems only.
func Writable(files []File, namespace string) (objects []config.Written, problems []config.Problem) {
	first := map[string]*model.Object{}
	for _, f := range files {
		if f.Err != nil {
			problems = append(problems, config.Problem{File: f.Name, Severity: config.Error, Message: f.Err.Error()})
		}
		for _, d := range config.Split(f.Data) {
			for _, w := range config.ReadWritten(d.Data, namespace) {
				w.Item = w.At(f.Name, d.Line)
				problems = append(problems, w.Problems...)
				twin := first[w.Key]
				switch {
				case w.Object == nil: // a problem is an error, or a warning that the object is of another kind
				case twin != nil:
					problems = append(problems, config.Duplicate(w.Object, twin))
				default:
					first[w.Key] = w.Object
					objects = append(objects, w)
				}
			}
		}
	}
	return objects, problems
}

// Named returns the objects of files by their kinds and names alone, whatever errors they have. Objects without a namespace get
// the given one. left are the places of those that are not of a kind that is served, or whose name cannot be read.
func Named(files []File, namespace string) (objects []config.Written, left []string, err error) {
	for _, f := range files {
		if f.Err != nil {
			return objects, left, fmt.Errorf("read %s: %w", f.Name, f.Err)
		}
		for _, d := range config.Split(f.Data) {
			for _, w := range config.ReadWritten(d.Data, namespace) {
				if w.Key == "" || w.Name == "" {
					left = append(left, fmt.Sprintf("%s:%d", f.Name, d.Line+w.Line-1))
					continue
				}
				objects = append(objects, w)
			}
		}
	}
	return objects, left, nil
}
