package ads

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

// maxNames is how many names one subscription may have: several ports and subsets of ten thousand services.
const maxNames = 1 << 16

var errTooManyNames = fmt.Errorf("too many resource names, at most %d may be subscribed", maxNames)

// names is a list of resource names, immutable. A mesh's proxies subscribe to the same names, so lists are interned:
// equal ones are one value, which compares by its address. Nil is the empty list.
type names struct {
	list []string // sorted, without duplicates and without "*"
	star bool     // "*" was in it
	wire string   // as the fields of a request; the list points into it
}

func (n *names) len() int {
	if n == nil {
		return 0
	}
	return len(n.list)
}

func (n *names) has(name string) bool {
	if n == nil {
		return false
	}
	_, ok := slices.BinarySearch(n.list, name)
	return ok
}

func (n *names) everything() bool { return n != nil && n.star }

// named is n without the star.
func (n *names) named(sh *share) *names {
	if n.everything() {
		return sh.interner.of(n.list)
	}
	return n
}

func (n *names) all() []string {
	if n == nil {
		return nil
	}
	return n.list
}

// stars yields the names, and "*" where it was in the list.
func (n *names) stars() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range n.all() {
			if !yield(name) {
				return
			}
		}
		if n.everything() {
			yield("*")
		}
	}
}

// interner keeps one value of each list as long as a reference to it exists: a list that no stream subscribes to is
// garbage-collected.
type interner struct {
	seed maphash.Seed
	mu   sync.Mutex
	live map[uint64]weak.Pointer[names] // by the hash of their wire form

	reported weak.Pointer[vocabulary] // of the resources that clients report to have
	forms    forms                    // resources that were changed for clients that refuse a part of them
}

func newInterner() *interner {
	return &interner{seed: maphash.MakeSeed(), live: map[uint64]weak.Pointer[names]{}}
}

// ofWire returns the list that consecutive fields of a request hold. For a known list it allocates nothing.
func (in *interner) ofWire(run []byte) (*names, error) { return in.ofBounded(run, maxNames) }

func (in *interner) ofBounded(run []byte, limit int) (*names, error) {
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

// of returns the list of names that are sorted, each once; nil where there are none.
func (in *interner) of(list []string) *names { return in.with(list, false) }

func (in *interner) with(list []string, star bool) *names {
	if len(list) == 0 && !star {
		return nil
	}
	n, err := in.ofBounded(appendNames(nil, list, star), len(list)) // two lists may merge into one that is longer than the limit
	if err != nil {
		panic(fmt.Sprintf("intern %d names: %v", len(list), err)) // they were parsed before
	}
	return n
}

func (in *interner) find(key uint64) *names {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.live[key].Value()
}

// add returns the value that is kept: another stream may have added the list first.
func (in *interner) add(key uint64, n *names) *names {
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

func (in *interner) forget(key uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.live[key].Value() == nil {
		delete(in.live, key)
	}
}

// parseNames reads fields that each hold a name. It ignores the field numbers.
func parseNames(wire string, limit int) (*names, error) {
	n := &names{wire: wire, list: make([]string, 0, countFields(wire, limit+1))}
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
			return nil, errTooManyNames
		}
	}
	slices.Sort(n.list)
	n.list = slices.Compact(n.list)
	return n, nil
}

// countFields counts the fields that can be read, up to a limit.
func countFields[T string | []byte](message T, limit int) (n int) {
	for n < limit {
		_, _, rest, ok := cutField(message)
		if !ok {
			break
		}
		message = rest
		n++
	}
	return n
}

// cutField takes the first field off a message, one that is text. It makes no copy.
func cutField[T string | []byte](message T) (number protowire.Number, value, rest T, ok bool) {
	tag, n := cutVarint(message)
	if n == 0 || protowire.Type(tag&7) != protowire.BytesType {
		return 0, value, rest, false
	}
	size, m := cutVarint(message[n:])
	if rest = message[n+m:]; m == 0 || size > uint64(len(rest)) {
		return 0, value, rest, false
	}
	return protowire.Number(tag >> 3), rest[:size], rest[size:], true
}

// cutVarint returns a number and its length in bytes, length 0 if it is malformed.
func cutVarint[T string | []byte](s T) (value uint64, n int) {
	for i := range min(len(s), 10) {
		value |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

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
