package model

import (
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// similar finds the host that was most likely meant by a wrong one.
type similar struct {
	mesh  *Mesh
	first map[string]string   // a host by its first label
	below map[string][]string // first labels by the rest of the host
	wild  []string
	asked int
}

// maxSimilar limits how many wrong hosts are compared with known ones, and with how many each: a comparison costs
// microseconds.
const maxSimilar = 100

func (s *similar) index() {
	if s.first != nil {
		return
	}
	s.first, s.below = map[string]string{}, map[string][]string{}
	for _, service := range s.mesh.services {
		if IsWildcard(service.Host) {
			s.wild = append(s.wild, service.Host)
			continue
		}
		first, rest, _ := strings.Cut(service.Host, ".")
		s.first[first] = service.Host
		s.below[rest] = append(s.below[rest], first)
	}
}

// again reports whether the comparisons for an object, so many after so many others, would find the same now, and counts them
// if so: only the first maxSimilar are made.
func (s *similar) again(compared [2]int) bool {
	before, own := compared[0], compared[1]
	if own > 0 && before != s.asked && max(before, s.asked)+own > maxSimilar && min(before, s.asked) < maxSimilar {
		return false
	}
	s.asked += own
	return true
}

func (s *similar) wildcards() []string { s.index(); return s.wild }

// host returns a known host with the same first label, else one with the same domain and a similar first label.
func (s *similar) host(host string) string {
	s.index()
	first, rest, _ := strings.Cut(host, ".")
	if same := s.first[first]; same != "" {
		return same
	}
	if s.asked++; s.asked > maxSimilar {
		return ""
	}
	known := s.below[rest]
	if near := spelling.Nearest(first, known[:min(len(known), maxSimilar)]); near != "" {
		return near + "." + rest
	}
	return ""
}

// slip returns the known host, outside the mesh's own domain, that differs from a host in one letter: changed, added,
// left out or exchanged with the next. Numbers are told apart on purpose, as in api1 and api2.
func (s *similar) slip(host string) string {
	if IsWildcard(host) || s.mesh.settings.Domain.has(host) {
		return ""
	}
	s.index()
	first, rest, _ := strings.Cut(host, ".")
	near := func(a, b string) bool { return len(a) > 3 && len(b) > 3 && oneSlip(a, b) }
	if known := s.first[first]; known != "" {
		if _, other, _ := strings.Cut(known, "."); near(rest, other) {
			return known
		}
	}
	known := s.below[rest]
	for _, other := range known[:min(len(known), maxSimilar)] {
		if near(first, other) {
			return other + "." + rest
		}
	}
	return ""
}

// shorter returns the host of a service below a registry's own suffix that a host has one label more than, as Consul's DNS
// answers TAG.web.service.consul and web.service.DATACENTER.consul beside web.service.consul.
func (s *similar) shorter(host string) string {
	labels := strings.Split(host, ".")
	if len(labels) < 4 || len(labels) > 10 {
		return ""
	}
	for i := range labels {
		rest := strings.Join(slices.Concat(labels[:i], labels[i+1:]), ".")
		if service := s.mesh.Service(rest); service != nil && service.Right == RightSuffix {
			return rest
		}
	}
	return ""
}

// oneSlip reports whether two texts differ in one letter, or in the order of two neighbours.
func oneSlip(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	start := 0
	for start < len(b) && a[start] == b[start] {
		start++
	}
	if start == len(a) {
		return false // they are equal
	}
	digit := func(text string, at int) bool { return at < len(text) && '0' <= text[at] && text[at] <= '9' }
	if digit(a, start) || digit(b, start) {
		return false
	}
	switch {
	case len(a) == len(b)+1:
		return a[start+1:] == b[start:]
	case len(a) > len(b):
		return false
	}
	return a[start+1:] == b[start+1:] ||
		start+1 < len(a) && a[start] == b[start+1] && a[start+1] == b[start] && a[start+2:] == b[start+2:]
}
