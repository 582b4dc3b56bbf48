package ads

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// resource is one resource, encoded once and shared by every response that holds it.
type resource struct {
	name    string
	content *anypb.Any
	hash    digest
}

type digest [sha256.Size]byte

// encode can only fail on text that is not UTF-8, which no decoder of ours lets in.
func encode(name string, m proto.Message) *resource {
	content := &anypb.Any{}
	if err := anypb.MarshalFrom(content, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("encode %T %s: %v", m, name, err))
	}
	return &resource{name: name, content: content, hash: sha256.Sum256(content.Value)}
}

// same reports whether two resources have the same content; nil is one that does not exist.
func same(a, b *resource) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || a.hash == b.hash
}

// set is resources of one kind, immutable, sorted by name, each name once.
type set struct {
	resources []*resource // never nil: an empty answer is one too
	version   string      // of the content: it survives a restart and is equal on every replica
}

// newSet takes resources that are sorted by name.
func newSet(resources []*resource) *set {
	v := newVersion()
	for _, r := range resources {
		v.add(r.name, r)
	}
	return &set{resources: resources, version: v.String()}
}

// find returns the resource of that name, nil where there is none, also in a set that is nil.
func (s *set) find(name string) *resource {
	if s == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(s.resources, name, func(r *resource, name string) int {
		return strings.Compare(r.name, name)
	})
	if !ok {
		return nil
	}
	return s.resources[i]
}

// only returns the resources that keep accepts.
func (s *set) only(keep func(name string) bool) *set {
	kept := []*resource{}
	for _, r := range s.resources {
		if keep(r.name) {
			kept = append(kept, r)
		}
	}
	return newSet(kept)
}

// with returns s and those of others whose names it does not have.
func (s *set) with(others *set) *set {
	if s == others {
		return s
	}
	all := slices.Clone(s.resources)
	for _, r := range others.resources {
		if s.find(r.name) == nil {
			all = append(all, r)
		}
	}
	if len(all) == len(s.resources) {
		return s
	}
	slices.SortFunc(all, func(a, b *resource) int { return strings.Compare(a.name, b.name) })
	return newSet(all)
}

// version hashes names and contents in the order they are added.
type version struct{ h hash.Hash }

func newVersion() version { return version{sha256.New()} }

func (v version) add(name string, r *resource) {
	var content digest
	if r != nil {
		content = r.hash
	}
	v.h.Write([]byte(name))
	v.h.Write([]byte{0})
	v.h.Write(content[:])
}

func (v version) String() string { return hex.EncodeToString(v.h.Sum(nil)[:8]) }
