package ads

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

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

func (n *names) all() []string {
	if n == nil {
		return nil
	}
	return n.list
}

// fields returns the names as the fields of a request.
func (n *names) fields() []byte { return []byte(n.wire) }

// begin reports whether data begins with exactly the names' fields, in this order, and their length in bytes.
func (n *names) begin(data []byte) (int, bool) {
	size := len(n.wire)
	return size, len(data) >= size && string(data[:size]) == n.wire && (len(data) == size || data[size] != n.wire[0])
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
