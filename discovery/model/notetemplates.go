package model

import "slices"

// Notes about templates: workloads that requests could be sent to, but that have no addresses.

// template adds a note if no endpoint of a service that selects the pods of a template can be one of these pods. For a
// WorkloadGroup, it adds a note if no workload has its labels.
func (j *judge) template(o *Object) {
	labels := TemplateLabels(o)
	if o.Kind == "WorkloadGroup" {
		if !slices.ContainsFunc(j.mesh.workloads[o.Namespace], func(w *Workload) bool { return Selects(labels, w.Labels) }) {
			j.note(NoAddress, o.Meta, "", "no workload that is known has %s: none is registered by itself; want a WorkloadEntry with these labels for each", pairs(labels))
		}
		return
	}
	for _, s := range j.mesh.selecting[o.Namespace] {
		if s.External || !Selects(s.Selector, labels) || j.hasOneOf(s.Host, labels) {
			continue
		}
		want := "its pods' addresses: a WorkloadEntry with these labels, an EndpointSlice, Endpoints or a Pod"
		if o.Kind == "Pod" {
			want = "its address: status.podIP, or an EndpointSlice"
		}
		j.note(NoAddress, o.Meta, "", "no endpoint of %s has %s; want %s", s.Host, pairs(labels), want)
		return
	}
}

// hasOneOf reports whether the labels of some endpoint of a host contradict none of these labels.
func (j *judge) hasOneOf(host string, labels map[string]string) bool {
	for _, s := range j.mesh.claims(host) {
		for _, e := range s.Endpoints {
			if agree(e.Labels, labels) {
				return true
			}
		}
	}
	return false
}

// agree reports whether no key has different values in a and b.
func agree(a, b map[string]string) bool {
	for key, value := range a {
		if other, both := b[key]; both && other != value {
			return false
		}
	}
	return true
}

// templateWith returns the first template with these labels that a service of the host selects; nil for none.
func (j *judge) templateWith(host string, labels map[string]string) *Object {
	j.needsTemplates()
	for _, o := range j.mesh.objects {
		of := TemplateLabels(o)
		if of == nil || !Selects(labels, of) {
			continue
		}
		for _, s := range j.mesh.selecting[o.Namespace] {
			if s.Host == host && Selects(s.Selector, of) {
				return o
			}
		}
	}
	return nil
}

// templateOf returns the labels of the first template that a service of the host selects; nil for none.
func (j *judge) templateOf(host string) map[string]string {
	j.needsTemplates()
	for _, s := range j.claims(host) {
		for _, o := range j.mesh.objects {
			if of := TemplateLabels(o); of != nil && o.Namespace == s.Namespace && len(s.Selector) > 0 && Selects(s.Selector, of) {
				return of
			}
		}
	}
	return nil
}

// startedBy returns the word that messages use for the workloads of a template.
func startedBy(m Meta) string {
	switch m.Kind {
	case "WorkloadGroup":
		return "workloads"
	case "Pod":
		return "containers"
	}
	return "pods"
}
