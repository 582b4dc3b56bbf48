package content

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

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
