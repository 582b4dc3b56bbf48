package content

import (
	"bytes"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"
)

// referenceFinder finds names in the bytes of resources, in large lists once.
type referenceFinder struct {
	comparer  *comparer
	merger    *merger
	additions memo[pair[*Set], *Names]
	found     memo[reference, bool]
}

// Added returns the names of resources that exist in one set and not in the one before.
func (f *referenceFinder) Added(from, to *Set) *Names {
	return f.additions.Get(pair[*Set]{from, to}, func() (list *Names) {
		for _, s := range f.comparer.compare(from, to) {
			fresh := s.fresh
			for _, l := range from.sets {
				if l != s.from {
					fresh = f.comparer.less(less{fresh, &l.resourceList, leaveKnown})
				}
			}
			list = f.merger.Merge(list, f.merger.namesIn(fresh), nil)
		}
		return list
	})
}

// References reports whether the resources of an update contain one of the names. It may report a name by mistake.
func (f *referenceFinder) References(n *Update, list *Names) bool {
	if list == nil {
		return false
	}
	for _, p := range n.Lists {
		find := func() bool { return p.references(list) }
		if p.long() && f.found.Get(reference{p, list}, find) || !p.long() && find() {
			return true
		}
	}
	return false
}

// longList is the size in bytes from which the result of such a search is kept: one route configuration may hold every
// host of a port.
const longList = 16 << 10

func (p *resourceList) long() bool {
	size := 0
	for _, r := range p.Resources {
		if size += r.size(); size >= longList {
			return true
		}
	}
	return false
}

// references searches the bytes of its resources. No message is decoded; a false match costs only a wait.
func (p *resourceList) references(list *Names) bool {
	for _, r := range p.Resources {
		if !r.Exists() {
			continue
		}
		_, _, typeURL := protowire.ConsumeField(r.Content) // all of a kind have the same
		if containsAny(r.Content[typeURL:], list.All()) {
			return true
		}
		for _, hosts := range r.pieces() { // a name is within a host
			if containsAny(hosts, list.All()) {
				return true
			}
		}
	}
	return false
}

// containsAny reports whether one of the names, which are sorted, is in content. There may be a thousand names of a
// hundred bytes that differ only in their last few bytes. So it searches for the common prefix of the names with the
// same first letter.
func containsAny(content []byte, names []string) bool {
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
			if rest = rest[at:]; beginsWithAny(rest, alike) {
				return true
			}
		}
		names = names[n:]
	}
	return false
}

// beginsWithAny reports whether text begins with one of the names, which are sorted.
func beginsWithAny(text []byte, names []string) bool {
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

// reference is the key for whether a list contains one of the names.
type reference struct {
	in    *resourceList
	names *Names
}
