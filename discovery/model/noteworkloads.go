package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Notes about the workloads that an object selects, and about names that are probably misspelt.

// exportTo adds a note for each namespace in which nothing is known.
func (j *judge) exportTo(meta Meta, namespaces []string) {
	for i, namespace := range namespaces {
		if slices.Contains([]string{".", "*", "~"}, namespace) {
			continue
		}
		if j.needs(needNamespaces, ""); !j.namespaces[namespace] {
			j.unknownNamespace(meta, index("spec.exportTo", i), namespace)
		}
	}
}

func (j *judge) unknownNamespace(meta Meta, path, namespace string) {
	want := j.knownNamespaces()
	if near := spelling.Nearest(namespace, slices.Sorted(maps.Keys(j.namespaces))); near != "" {
		want = "did you mean " + near + "?"
	}
	j.missing(UnknownNamespace, namespace, meta, path, "nothing is known of namespace %s; %s", namespace, want)
}

// knownNamespaces names some.
func (j *judge) knownNamespaces() string {
	known := slices.Sorted(maps.Keys(j.namespaces))
	return "want one of " + strings.Join(known[:min(len(known), 10)], ", ")
}

// selector adds a note if no workload of a namespace, or of all namespaces if it is empty, has the selected labels. Not
// every workload is known here, so there is no note about a label whose key no known workload has. It returns false if
// it has added one.
func (j *judge) selector(meta Meta, path string, labels map[string]string, namespace string) (known bool) {
	known = true
	j.fleeting = j.fleeting || len(labels) > 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		values := j.selected.values(namespace, key)
		if len(values) == 0 || values[labels[key]] {
			continue
		}
		known = false
		all := slices.Sorted(maps.Keys(values))
		want := "want " + key + "=" + strings.Join(all[:min(len(all), 10)], ", ")
		if near := spelling.Nearest(labels[key], all); near != "" {
			want = "did you mean " + key + "=" + near + "?"
		}
		j.note(EmptySelector, meta, path+"."+key, "no workload that is known has %s=%s; %s", key, labels[key], want)
	}
	return known
}

// proxies adds notes if a selector selects none of the connected proxies that it could select, and if some of these have
// no labels at all.
func (j *judge) proxies(meta Meta, path string, labels map[string]string, could []Proxy) {
	if len(labels) == 0 {
		return
	}
	selects := 0
	var bare []string
	var example *Proxy
	for i, w := range could {
		switch {
		case Selects(labels, w.Labels):
			selects++
		case len(w.Labels) == 0:
			bare = append(bare, w.Namespace+"/"+w.Name)
		case example == nil:
			example = &could[i]
		}
	}
	if len(bare) > 0 {
		slices.Sort(bare)
		first := bare[:min(len(bare), maxProxies)]
		j.note(NoLabels, meta, path, "%d connected proxies that this could select have no labels, so it does not: %s; want the labels of their "+
			"workloads in ISTIO_METAJSON_LABELS of their agents", len(bare), strings.Join(first, ", "))
		j.notes[len(j.notes)-1].Proxies = first
	}
	if selects == 0 && example != nil {
		j.note(NoProxy, meta, path, "no connected proxy has %s: this has no effect until one connects; one of namespace %s has %s",
			pairs(labels), example.Namespace, pairs(example.Labels))
	}
}

// selected indexes the labels of known workloads.
type selected struct {
	mesh       *Mesh
	connected  []Proxy
	labels     map[labelKey]map[string]bool // values
	sets       map[[2]string][]labelled     // by each of their pairs
	namespaces map[string]bool              // that have a workload
}

type labelKey struct{ namespace, key string } // an empty namespace means all

func (s *selected) values(namespace, key string) map[string]bool {
	if s.labels == nil {
		s.labels = map[labelKey]map[string]bool{}
		s.each(s.add)
	}
	return s.labels[labelKey{namespace, key}]
}

// inhabited reports whether a workload of a namespace is known, or none of any: then nothing can be said.
func (s *selected) inhabited(namespace string) bool {
	if s.namespaces == nil {
		s.namespaces = map[string]bool{}
		s.each(func(namespace string, labels map[string]string) {
			if labels != nil {
				s.namespaces[namespace] = true
			}
		})
		for _, w := range s.connected {
			s.namespaces[w.Namespace] = true // without labels too
		}
	}
	return s.namespaces[namespace] || len(s.namespaces) == 0
}

// each calls do for the labels of each known workload.
func (s *selected) each(do func(namespace string, labels map[string]string)) {
	for _, service := range s.mesh.services {
		for _, e := range service.Endpoints {
			do(service.Namespace, e.Labels)
		}
	}
	for namespace, all := range s.mesh.workloads {
		for _, w := range all {
			do(namespace, w.Labels)
		}
	}
	for _, w := range s.connected {
		do(w.Namespace, w.Labels)
	}
	for _, o := range s.mesh.objects {
		do(o.Namespace, TemplateLabels(o))
	}
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
