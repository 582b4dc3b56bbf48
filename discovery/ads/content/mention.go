package content

import (
	"bytes"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"
)

// finder finds names in the bytes of resources, in large parts once.
type finder struct {
	comparer  *comparer
	merger    *merger
	additions memo[pair[*Set], *Names]
	found     memo[naming, bool]
}

// Added returns the names of resources that exist in one set and not in the one before.
func (f *finder) Added(from, to *Set) *Names {
	return f.additions.Get(pair[*Set]{from, to}, func() (list *Names) {
		for _, s := range f.comparer.compare(from, to) {
			fresh := s.fresh
			for _, l := range from.layers {
				if l != s.from {
					fresh = f.comparer.less(less{fresh, &l.part, leaveKnown})
				}
			}
			list = f.merger.Merge(list, f.merger.namesIn(fresh), nil)
		}
		return list
	})
}

// Mentions reports whether the resources of news contain one of the names. It may report a name by mistake.
func (f *finder) Mentions(n *News, list *Names) bool {
	if list == nil {
		return false
	}
	for _, p := range n.Parts {
		find := func() bool { return p.mentions(list) }
		if p.long() && f.found.Get(naming{p, list}, find) || !p.long() && find() {
			return true
		}
	}
	return false
}

// longPart is the size in bytes from which the result of such a search is kept: one route configuration may hold every
// host of a port.
const longPart = 16 << 10

func (p *part) long() bool {
	size := 0
	for _, r := range p.Resources {
		if size += r.size(); size >= longPart {
			return true
		}
	}
	return false
}

// mentions searches the bytes of its resources. No message is decoded; a false match costs only a wait.
func (p *part) mentions(list *Names) bool {
	for _, r := range p.Resources {
		if !r.Exists() {
			continue
		}
		_, _, typeURL := protowire.ConsumeField(r.Content) // all of a kind have the same
		if speaksOf(r.Content[typeURL:], list.All()) {
			return true
		}
		for _, hosts := range r.pieces() { // a name is within a host
			if speaksOf(hosts, list.All()) {
				return true
			}
		}
	}
	return false
}

// speaksOf reports whether one of the names, which are sorted, is in content. There may be a thousand names of a
// hundred bytes that differ only in their last few bytes. So it searches for the common prefix of the names with the
// same first letter.
func speaksOf(content []byte, names []string) bool {
	for len(names) > 0 {
		n := 1
		for n < len(names) && names[n][:1] == names[0][:1] {
			n++
		}
		alike := names[:n]
		prefix := []byte(names[0][:common(names[0], names[n-1])])
		for rest := content; ; rest = rest[1:] {
			at := bytes.Index(rest, prefix)
			if at < 0 {
				break
			}
			if rest = rest[at:]; beginsWithOne(rest, alike) {
				return true
			}
		}
		names = names[n:]
	}
	return false
}

// beginsWithOne reports whether text begins with one of the names, which are sorted.
func beginsWithOne(text []byte, names []string) bool {
	for {
		after := sort.Search(len(names), func(i int) bool { return names[i] > string(text) })
		if after == 0 {
			return false
		}
		last := names[after-1]
		n := common(last, text)
		if n == len(last) {
			return true
		}
		text, names = text[:n], names[:after-1] // any other match is a prefix of the part that both have in common
	}
}

// common returns the length of the common prefix of two texts, in bytes.
func common[T string | []byte](a string, b T) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// naming is the key for whether a part contains one of the names.
type naming struct {
	in    *part
	names *Names
}
