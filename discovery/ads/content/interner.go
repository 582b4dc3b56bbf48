package content

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"weak"
)

// Interner keeps one value of each list as long as a reference to it exists: a list that no stream subscribes to is
// garbage-collected.
type Interner struct {
	seed maphash.Seed
	mu   sync.Mutex
	live map[uint64]weak.Pointer[Names] // by the hash of their wire form

	reported weak.Pointer[vocabulary] // of the resources that clients report to have
	forms    forms                    // resources that were changed for clients that refuse a part of them
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
	v := Versions{of: in.vocabulary()}
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

// vocabulary returns the list for the next request.
func (in *Interner) vocabulary() *vocabulary {
	in.mu.Lock()
	defer in.mu.Unlock()
	if v := in.reported.Value(); v != nil && !v.halfFull() {
		return v
	}
	v := &vocabulary{seed: in.seed, limit: maxVocabulary, places: map[uint64]uint32{}}
	in.reported = weak.Make(v)
	return v
}
