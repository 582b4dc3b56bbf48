package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Notes about the workloads that an object selects, and about names that are likely misspelt.

// exportTo wants namespaces that something is in.
func (j *judge) exportTo(meta Meta, namespaces []string) {
	for i, namespace := range namespaces {
		if !slices.Contains([]string{".", "*", "~"}, namespace) && !j.namespaces[namespace] {
			j.unknownNamespace(meta, index("spec.exportTo", i), namespace)
		}
	}
}

func (j *judge) unknownNamespace(meta Meta, path, namespace string) {
	known := slices.Sorted(maps.Keys(j.namespaces))
	want := "want one of " + strings.Join(known[:min(len(known), 10)], ", ")
	if near := spelling.Nearest(namespace, known); near != "" {
		want = "did you mean " + near + "?"
	}
	j.note(UnknownNamespace, meta, path, "nothing is known of namespace %s; %s", namespace, want)
}

// selector wants labels that some workload has, of a namespace or, where it is empty, of all. Not every workload is known
// here: where none has the label's key, nothing is said.
func (j *judge) selector(meta Meta, path string, labels map[string]string, namespace string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		values := j.selected.values(namespace, key)
		if len(values) == 0 || values[labels[key]] {
			continue
		}
		known := slices.Sorted(maps.Keys(values))
		want := "want " + key + "=" + strings.Join(known[:min(len(known), 10)], ", ")
		if near := spelling.Nearest(labels[key], known); near != "" {
			want = "did you mean " + key + "=" + near + "?"
		}
		j.note(EmptySelector, meta, path+"."+key, "no workload that is known has %s=%s; %s", key, labels[key], want)
	}
}

// selected knows which labels workloads have.
type selected struct {
	mesh      *Mesh
	connected []Proxy
	labels    map[labelKey]map[string]bool // values
}

type labelKey struct{ namespace, key string } // an empty namespace stands for all

func (s *selected) values(namespace, key string) map[string]bool {
	if s.labels == nil {
		s.labels = map[labelKey]map[string]bool{}
		for _, service := range s.mesh.services {
			for _, e := range service.Endpoints {
				s.add(service.Namespace, e.Labels)
			}
		}
		for namespace, all := range s.mesh.workloads {
			for _, w := range all {
				s.add(namespace, w.Labels)
			}
		}
		for _, w := range s.connected {
			s.add(w.Namespace, w.Labels)
		}
		for _, o := range s.mesh.objects {
			s.add(o.Namespace, TemplateLabels(o))
		}
	}
	return s.labels[labelKey{namespace, key}]
}

func (s *selected) add(namespace string, labels map[string]string) {
	for key, value := range labels {
		for _, at := range []labelKey{{namespace, key}, {"", key}} {
			if s.labels[at] == nil {
				s.labels[at] = map[string]bool{}
			}
			s.labels[at][value] = true
		}
	}
}

// similar finds the host that a wrong one is likely to mean.
type similar struct {
	mesh  *Mesh
	first map[string]string   // a host by its first label
	below map[string][]string // first labels by what follows them
	wild  []string
	asked int
}

// maxSimilar bounds how many wrong hosts are compared with others, and with how many: each costs microseconds.
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

func (s *similar) wildcards() []string { s.index(); return s.wild }

// host returns a host whose first label is the same, else one whose first label alone differs, and a little.
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
