package content

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"runtime"
	"slices"
	"sync"
	"unicode/utf8"
	"weak"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxNames is how many names one subscription may have: several ports and subsets of ten thousand services.
const MaxNames = 1 << 16

var ErrTooManyNames = fmt.Errorf("too many resource names, at most %d may be subscribed", MaxNames)

// Names is a list of resource names, immutable. A mesh's proxies subscribe to the same names, so lists are interned:
// equal ones are one value, which compares by its address. Nil is the empty list.
type Names struct {
	list []string // sorted, without duplicates and without "*"
	star bool     // "*" was in it
	wire string   // as the fields of a request; the list points into it
}

// Len returns the number of names, without the star.
func (n *Names) Len() int {
	if n == nil {
		return 0
	}
	return len(n.list)
}

// Has reports whether a name is in the list. The star is none.
func (n *Names) Has(name string) bool {
	if n == nil {
		return false
	}
	_, ok := slices.BinarySearch(n.list, name)
	return ok
}

// Everything reports whether the star was in the list.
func (n *Names) Everything() bool { return n != nil && n.star }

// All returns the names, sorted, without the star.
func (n *Names) All() []string {
	if n == nil {
		return nil
	}
	return n.list
}

// Fields returns the names as the fields of a request.
func (n *Names) Fields() []byte { return []byte(n.wire) }

// Begin reports whether data begins with exactly the names' fields, in this order, and their length in bytes.
func (n *Names) Begin(data []byte) (int, bool) {
	size := len(n.wire)
	return size, len(data) >= size && string(data[:size]) == n.wire && (len(data) == size || data[size] != n.wire[0])
}

// Stars yields the names, and "*" where it was in the list.
func (n *Names) Stars() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range n.All() {
			if !yield(name) {
				return
			}
		}
		if n.Everything() {
			yield("*")
		}
	}
}

// parseNames reads fields that each hold a name. It ignores the field numbers.
func parseNames(wire string, limit int) (*Names, error) {
	n := &Names{wire: wire, list: make([]string, 0, countFields(wire, limit+1))}
	for rest := wire; rest != ""; {
		_, name, after, ok := cutField(rest)
		if !ok {
			return nil, errors.New("resource names are cut off")
		}
		if !utf8.ValidString(name) { // of the name alone: the length before it need not be text
			return nil, errors.New("resource names are not UTF-8")
		}
		rest = after
		switch name {
		case "":
			return nil, errors.New("a resource name is empty")
		case "*":
			n.star = true
		default:
			n.list = append(n.list, name)
		}
		if len(n.list) > limit {
			return nil, ErrTooManyNames
		}
	}
	slices.Sort(n.list)
	n.list = slices.Compact(n.list)
	return n, nil
}

// fieldNames is the number of resource names in requests of both variants.
const fieldNames = 3

// appendNames writes names as requests of either variant do: resource_names and resource_names_subscribe are both 3.
func appendNames(b []byte, list []string, star bool) []byte {
	for _, name := range list {
		b = protowire.AppendString(protowire.AppendTag(b, fieldNames, protowire.BytesType), name)
	}
	if star {
		b = protowire.AppendString(protowire.AppendTag(b, fieldNames, protowire.BytesType), "*")
	}
	return b
}

// merging is a list of names, with names to add and names to remove.
type merging struct{ list, add, drop *Names }

// merger makes lists of names, each once.
type merger struct {
	Interner *Interner
	work     *Work
	merged   memo[merging, *Names]
	lists    memo[*resourceList, *Names]
}

// Merge returns the names of list and add, without the names of drop that are not in add.
func (m *merger) Merge(list, add, drop *Names) *Names {
	if add == nil && drop == nil {
		return list
	}
	if list == nil {
		return add
	}
	return m.merged.getFor(1+list.Len()+add.Len(), merging{list, add, drop}, func() *Names {
		m.work.Looked.Add(int64(list.Len() + add.Len()))
		kept := slices.DeleteFunc(slices.Concat(list.All(), add.All()), func(name string) bool {
			return drop.Has(name) && !add.Has(name)
		})
		slices.Sort(kept)
		star := add.Everything() || list.Everything() && !drop.Everything()
		return m.Interner.With(slices.Compact(kept), star)
	})
}

// Named is n without the star.
func (m *merger) Named(n *Names) *Names {
	if n.Everything() {
		return m.Interner.Of(n.list)
	}
	return n
}

// Common returns the names that both lists have.
func (m *merger) Common(a, b *Names) *Names {
	var list []string
	for _, name := range b.All() {
		if a.Has(name) {
			list = append(list, name)
		}
	}
	return m.Interner.Of(list)
}

// namesIn returns the names of a list. The names of a list that many proxies get are collected once.
func (m *merger) namesIn(p *resourceList) *Names {
	list := func() *Names {
		names := make([]string, 0, len(p.Resources))
		for _, r := range p.Resources {
			names = append(names, r.Name)
		}
		return m.namesOf(names)
	}
	if len(p.Resources) < manyResources {
		return list()
	}
	return m.lists.getFor(1+len(p.Resources), p, list)
}

// namesOf returns names in any order as a list.
func (m *merger) namesOf(list []string) *Names {
	slices.Sort(list)
	return m.Interner.Of(slices.Compact(list))
}

// Rewrite returns r with these virtual hosts, r itself if there are too many of them.
func (m *merger) Rewrite(r *Resource, d *virtualHosts, bodies [][]byte) *Resource {
	if made := m.Interner.rewrites.of(r, d, bodies); made != nil {
		return made
	}
	return r
}

// Interner keeps one value of each list as long as a reference to it exists: a list that no stream subscribes to is
// garbage-collected.
type Interner struct {
	seed maphash.Seed
	mu   sync.Mutex
	live map[uint64]weak.Pointer[Names] // by the hash of their wire form

	reported weak.Pointer[versionTable] // of the resources that clients report to have
	rewrites rewrites                   // resources that were changed for clients that refuse a part of them
}

// NewInterner returns an interner of no lists. The requests of all streams of a server share one.
func NewInterner() *Interner {
	return &Interner{seed: maphash.MakeSeed(), live: map[uint64]weak.Pointer[Names]{}}
}

// OfWire returns the list that consecutive fields of a request hold. For a known list it allocates nothing.
func (in *Interner) OfWire(run []byte) (*Names, error) { return in.ofBounded(run, MaxNames) }

func (in *Interner) ofBounded(run []byte, limit int) (*Names, error) {
	if len(run) == 0 {
		return nil, nil
	}
	key := maphash.Bytes(in.seed, run)
	if n := in.find(key); n != nil && n.wire == string(run) {
		return n, nil
	}
	n, err := parseNames(string(run), limit)
	if err != nil {
		return nil, err
	}
	if canonical := appendNames(nil, n.list, n.star); !bytes.Equal(canonical, run) {
		return in.ofBounded(canonical, limit) // the same names in another order
	}
	return in.add(key, n), nil
}

// Of returns the list of names that are sorted, each once; nil where there are none.
func (in *Interner) Of(list []string) *Names { return in.With(list, false) }

// With is Of for a list that may have the star.
func (in *Interner) With(list []string, star bool) *Names {
	if len(list) == 0 && !star {
		return nil
	}
	n, err := in.ofBounded(appendNames(nil, list, star), len(list)) // two lists may merge into one that is longer than the limit
	if err != nil {
		panic(fmt.Sprintf("intern %d names: %v", len(list), err)) // they were parsed before
	}
	return n
}

func (in *Interner) find(key uint64) *Names {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.live[key].Value()
}

// add returns the value that is kept: another stream may have added the list first.
func (in *Interner) add(key uint64, n *Names) *Names {
	in.mu.Lock()
	defer in.mu.Unlock()
	if old := in.live[key].Value(); old != nil {
		if old.wire == n.wire {
			return old
		}
		return n // another list has the same hash: this one is not shared
	}
	in.live[key] = weak.Make(n)
	runtime.AddCleanup(n, in.forget, key)
	return n
}

func (in *Interner) forget(key uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.live[key].Value() == nil {
		delete(in.live, key)
	}
}

// OfVersions returns the entries of consecutive fields of a request.
func (in *Interner) OfVersions(run []byte) (Versions, error) {
	if len(run) == 0 {
		return Versions{}, nil
	}
	v := Versions{of: in.versionTable()}
	known, fresh := v.of.find(run)
	if v.at = known; len(fresh) > 0 {
		places, rest, err := v.of.add(string(fresh))
		if err != nil {
			return Versions{}, err
		}
		v.at, v.rest = append(v.at, places...), rest
	}
	return v, nil
}

// versionTable returns the list for the next request.
func (in *Interner) versionTable() *versionTable {
	in.mu.Lock()
	defer in.mu.Unlock()
	if v := in.reported.Value(); v != nil && !v.halfFull() {
		return v
	}
	v := &versionTable{seed: in.seed, limit: maxVersionTable, places: map[uint64]uint32{}}
	in.reported = weak.Make(v)
	return v
}
