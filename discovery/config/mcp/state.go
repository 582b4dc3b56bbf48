package mcp

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// state is the objects that one run has sent, and those of earlier runs.
type state struct {
	address    string
	kinds      map[string]config.Kind // by type URL
	sent       map[string]map[string]*known
	had        map[string]map[string]*known // of the run before, by type URL and key
	first      bool                         // there was no run that synced
	emptyTypes map[string]bool              // type URLs with an empty first answer: the server may have just started
}

// known is a resource, and the result of reading it.
type known struct {
	bytes []byte
	read
}

// typeURL names a kind as Istio's generator does.
func typeURL(k config.Kind) string { return k.APIVersion + "/" + k.Name }

func newState(address string, before *state) *state {
	s := &state{
		address: address, kinds: map[string]config.Kind{}, sent: map[string]map[string]*known{}, had: map[string]map[string]*known{},
		first: true, emptyTypes: map[string]bool{},
	}
	for _, k := range config.Kinds() {
		s.kinds[typeURL(k)] = k
	}
	if before != nil {
		maps.Copy(s.had, before.had) // for types that the run before did not receive
		maps.Copy(s.had, before.sent)
		s.first = before.first
	}
	return s
}

// answered reports whether every kind was answered.
func (s *state) answered() bool { return len(s.sent) == len(s.kinds) }

// incomplete reports whether the answers are applied only after a while: because objects have disappeared, or because
// there are none.
func (s *state) incomplete() bool {
	if !s.first {
		return len(s.emptyTypes) > 0
	}
	for _, objects := range s.sent {
		if len(objects) > 0 {
			return false
		}
	}
	return true
}

// lost returns what the answers lack of the run before: as a text, and in number.
func (s *state) lost() (lost string, objects int) {
	var parts []string
	for _, url := range slices.Sorted(maps.Keys(s.emptyTypes)) {
		n := len(s.had[url])
		objects += n
		parts = append(parts, fmt.Sprintf("all %d objects of kind %s", n, s.kinds[url].Name))
	}
	return strings.Join(parts, ", "), objects
}

// apply sets all resources of a type. It returns the groups that changed, and new warnings.
func (s *state) apply(url string, resources []*anypb.Any) (groups map[string]model.Group, warnings []config.Problem) {
	k, now := s.kinds[url], make(map[string]*known, len(resources))
	groups = map[string]model.Group{}
	before, answered := s.sent[url]
	last := before
	if !answered {
		last = s.had[url]
	}
	unread := false // a resource that may be any of before
	for i, in := range resources {
		r := s.remember(last, i, url, in)
		if r == nil {
			r = &known{in.GetValue(), readObject(s.address, k, in)}
			if r.key == "" {
				r.key = unnamed(url, i)
			}
			warnings = append(warnings, r.warnings...)
		}
		if twin := now[r.key]; twin != nil {
			twice := read{key: twin.key, group: twin.group}
			twice.group.Faults = append(slices.Clone(twice.group.Faults), fmt.Sprintf("%s is sent more than once: the first is used", r.key))
			for _, o := range r.group.Objects {
				if first := twin.group.Objects; len(first) > 0 && model.StandIn(first[0], o) != nil {
					twice.group.Objects = append(slices.Clip(twice.group.Objects), o)
				}
			}
			r = &known{nil, twice}
		}
		now[r.key], unread = r, unread || r.group.Unread
		if was := before[r.key]; was != r {
			groups[r.key] = r.group
		}
	}
	for key, was := range before {
		switch {
		case now[key] != nil:
		case unread && !was.group.Unread:
			now[key] = was
		default:
			groups[key] = model.Group{}
		}
	}
	s.sent[url] = now
	if delete(s.emptyTypes, url); !answered && len(now) == 0 && len(last) > 0 {
		s.emptyTypes[url] = true
	}
	return groups, warnings
}

// unnamed returns the key of a resource that does not name its object.
func unnamed(url string, i int) string { return fmt.Sprintf("%s, resource %d", url, i) }

// remember returns the earlier result for the same bytes, nil if there is none.
func (s *state) remember(last map[string]*known, i int, url string, in *anypb.Any) *known {
	for _, key := range []string{keyOf(s.kinds[url], in), unnamed(url, i)} {
		if was := last[key]; was != nil && was.bytes != nil && bytes.Equal(was.bytes, in.GetValue()) {
			return was
		}
	}
	return nil
}

// keyOf returns the key of a resource that names its object.
func keyOf(k config.Kind, in *anypb.Any) string {
	meta, _ := field(in.GetValue(), 1)
	name, _ := field(meta, 1)
	return k.Name + "/" + string(name)
}

// field returns the bytes of the first occurrence of a field in an encoded message.
func field(data []byte, number protowire.Number) ([]byte, bool) {
	for len(data) > 0 {
		n, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(n, kind, data[tag:])
		if size < 0 {
			return nil, false
		}
		if n == number && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[tag:])
			return value, true
		}
		data = data[tag+size:]
	}
	return nil, false
}

// missing returns the types that were not answered.
func (s *state) missing() (out []string) {
	for _, url := range slices.Sorted(maps.Keys(s.kinds)) {
		if _, ok := s.sent[url]; !ok {
			out = append(out, url)
		}
	}
	return out
}

func (s *state) count() (n int) {
	for _, objects := range s.sent {
		n += len(objects)
	}
	return n
}
