package content

import (
	"errors"
	"hash/maphash"
	"iter"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Versions holds the resources that a reconnecting Envoy reports: the fields initial_resource_versions of its request,
// a name and a version in each. After a restart a thousand requests wait for their views, and report nearly the same,
// in any order. So a request has four bytes for each entry, not the eighty that it was sent as.
type Versions struct {
	of   *versionTable // nil for none
	at   []uint32      // places in it
	rest string        // as the fields of a request: entries for which the table has no room
}

// entry is one of them.
type entry struct {
	Name, Version string
	wire          string // the value of its field
	hash          uint64 // of wire
}

// Empty reports whether nothing was reported.
func (v Versions) Empty() bool { return v.of == nil }

// All yields the entries in any order, repeated ones too.
func (v Versions) All() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		if v.Empty() {
			return
		}
		list := v.of.entries()
		for _, at := range v.at {
			if !yield(list[at]) {
				return
			}
		}
		for rest := v.rest; rest != ""; {
			_, wire, after, _ := cutField(rest)
			if e, err := parseEntry(v.of.seed, wire); err == nil && !yield(e) { // it was parsed before
				return
			}
			rest = after
		}
	}
}

// CheckEntries returns the error that OfVersions would return.
func CheckEntries(run []byte) error {
	for len(run) > 0 {
		_, wire, after, ok := cutField(run)
		if !ok {
			break // a Request takes no such field
		}
		if _, _, err := textsOf(wire); err != nil {
			return err
		}
		run = after
	}
	return nil
}

func parseEntry(seed maphash.Seed, wire string) (entry, error) {
	name, version, err := textsOf([]byte(wire))
	return entry{
		Name: wire[name.from:name.to], Version: wire[version.from:version.to],
		wire: wire, hash: maphash.String(seed, wire),
	}, err
}

// span is a place in the value of an entry's field, in bytes.
type span struct{ from, to int }

// textsOf reads an entry of a map as protobuf does: the last one of a repeated field counts, others are ignored.
func textsOf(data []byte) (name, version span, err error) {
	for at := 0; at < len(data); {
		number, wireType, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return name, version, protowire.ParseError(tag)
		}
		if number > protowire.MaxValidNumber { // ConsumeTag takes it
			return name, version, errors.New("initial_resource_versions have an invalid field number")
		}
		at += tag
		size := protowire.ConsumeFieldValue(number, wireType, data[at:])
		if size < 0 {
			return name, version, protowire.ParseError(size)
		}
		at += size
		if wireType != protowire.BytesType || number > 2 {
			continue
		}
		text, _ := protowire.ConsumeBytes(data[at-size:])
		if !utf8.Valid(text) {
			return name, version, errors.New("initial_resource_versions are not UTF-8")
		}
		if place := (span{at - len(text), at}); number == 1 {
			name = place
		} else {
			version = place
		}
	}
	return name, version, nil
}

// versionTable is a list of entries that clients have reported, each once. It lives as long as a request that points
// into it.
type versionTable struct {
	seed  maphash.Seed
	limit int // of cost

	mu     sync.RWMutex
	places map[uint64]uint32 // by the hash of the entry
	list   []entry           // only appended to
	cost   int               // bytes, roughly
}

const (
	maxVersionTable = 32 << 20 // bytes
	costOfEntry     = 96       // bytes, without its text
)

// entries returns the list as it is now. Its elements do not change.
func (v *versionTable) entries() []entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.list
}

// halfFull reports whether the next request should begin a new list.
func (v *versionTable) halfFull() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.cost > v.limit/2
}

// find returns the entries of consecutive fields that are known, and the fields of those that are not.
func (v *versionTable) find(run []byte) (known []uint32, fresh []byte) {
	known = make([]uint32, 0, countFields(run, MaxNames))
	v.mu.RLock()
	defer v.mu.RUnlock()
	for len(run) > 0 {
		_, wire, after, ok := cutField(run)
		if !ok {
			break // a Request takes no such field
		}
		at, ok := v.places[maphash.Bytes(v.seed, wire)]
		if ok && v.list[at].wire == string(wire) && len(known) < MaxNames {
			known = append(known, at)
		} else {
			fresh = append(fresh, run[:len(run)-len(after)]...)
		}
		run = after
	}
	return known, fresh
}

// add returns the places of entries, which it takes in; the fields again if there is no room for all.
func (v *versionTable) add(fields string) (places []uint32, rest string, err error) {
	var fresh []entry
	for left := fields; left != ""; {
		_, wire, after, _ := cutField(left)
		e, err := parseEntry(v.seed, wire)
		if err != nil {
			return nil, "", err
		}
		if len(fresh) <= MaxNames { // more are not taken in
			fresh = append(fresh, e)
		}
		left = after
	}
	cost := len(fields) + len(fresh)*costOfEntry
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(fresh) > MaxNames || v.cost+cost > v.limit {
		return nil, fields, nil
	}
	for _, e := range fresh {
		at, ok := v.places[e.hash]
		switch {
		case !ok: // else another request has brought it meanwhile
			at = uint32(len(v.list))
			v.places[e.hash], v.list = at, append(v.list, e)
		case v.list[at].wire != e.wire: // two entries of one hash
			return nil, fields, nil
		}
		places = append(places, at)
	}
	v.cost += cost
	return places, "", nil
}
