package model

import (
	"maps"
	"reflect"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Workload is something that runs and can be called: a Pod, a WorkloadEntry, an instance that is registered with Consul,
// a connected proxy.
type Workload struct {
	Registry       string   // that knows it, such as Kubernetes; "" for configuration
	Cluster        string   // of the registry
	Namespace      string   // services of this namespace may select it
	Name           string   // in its namespace
	Addresses      []string // by which it is called: of an IPv4 and an IPv6 address the first counts
	Ports          map[string]uint32
	Labels         map[string]string
	ServiceAccount string
	Weight         uint32 // relative to others; 0 means 1
	Locality       Locality
	Network        string // where its addresses are reachable; "" for the mesh's own
	Health         Health
	Origin         Origin
}

// Health is whether a workload takes requests, as far as its registry knows.
type Health uint8

const (
	HealthUnknown   Health = iota // nothing is known: it is taken for healthy
	HealthHealthy                 // it takes requests
	HealthDraining                // it finishes the requests that it has, and takes no new ones
	HealthUnhealthy               // it is known, and takes none
)

func (h Health) String() string {
	return [...]string{"unknown", "healthy", "draining", "unhealthy"}[h]
}

// TakesRequests reports whether new requests may go there.
func (h Health) TakesRequests() bool { return h == HealthUnknown || h == HealthHealthy }

// endpoint returns the workload as an endpoint of a service that selects it.
func (w *Workload) endpoint() Endpoint {
	e := Endpoint{
		Ports: w.Ports, Labels: w.Labels, Weight: w.Weight, Locality: w.Locality, Network: w.Network, Cluster: w.Cluster,
		ServiceAccount: w.ServiceAccount, Health: w.Health,
	}
	if len(w.Addresses) > 0 { // without one only the gateways of its network know where it is
		e.Address = w.Addresses[0]
	}
	return e
}

// workloadOf reads a workload as WorkloadEntry writes it.
func workloadOf(e *networking.WorkloadEntry, meta Meta) *Workload {
	w := &Workload{
		Namespace: meta.Namespace, Name: meta.Name, Ports: e.Ports, Labels: workloadLabels(e, meta), ServiceAccount: e.ServiceAccount,
		Weight: e.Weight, Locality: ParseLocality(e.Locality), Network: e.Network, Origin: meta.Origin,
	}
	if e.Address != "" {
		w.Addresses = []string{e.Address}
	}
	return w
}

// workloadLabels returns the labels of a WorkloadEntry: its spec's, and those of its metadata that the spec does not set.
func workloadLabels(e *networking.WorkloadEntry, meta Meta) map[string]string {
	if len(meta.Labels) == 0 {
		return e.Labels
	}
	labels := maps.Clone(meta.Labels)
	maps.Copy(labels, e.Labels)
	return labels
}

// addEntry adds the workload of a WorkloadEntry. That of an object which was known before is the same one.
func (m *Mesh) addEntry(last *Mesh, o *Object, spec *networking.WorkloadEntry) {
	w := (*Workload)(nil)
	if last != nil {
		w = last.entries[o]
	}
	if w == nil {
		w = workloadOf(spec, o.Meta)
	}
	m.entries[o] = w
	m.workloads[o.Namespace] = append(m.workloads[o.Namespace], w)
}

// takes reports whether the selector of a service of the workload's namespace takes it.
func (s *Service) takes(w *Workload) bool {
	return (s.Registry == "" || s.Registry != w.Registry) && Selects(s.Selector, w.Labels)
}

// WorkloadChange is a workload as it was, nil for a new one, and as it is, nil for one that is gone.
type WorkloadChange struct{ From, To *Workload }

// WorkloadChanges returns how the workloads of a group differ from those that it had.
func WorkloadChanges(before, now Group) (out []WorkloadChange) {
	for _, w := range before.Workloads {
		if !slices.Contains(now.Workloads, w) {
			out = append(out, WorkloadChange{From: w})
		}
	}
	for _, w := range now.Workloads {
		if !slices.Contains(before.Workloads, w) {
			out = append(out, WorkloadChange{To: w})
		}
	}
	return out
}

// moveWorkloads is false where a service takes one of them. It costs what the namespaces have that they are in, once for all.
func (m *Mesh) moveWorkloads(changes []WorkloadChange) bool {
	gone, come := map[string]map[*Workload]bool{}, map[string][]*Workload{} // by namespace
	for _, c := range changes {
		for _, w := range []*Workload{c.From, c.To} {
			switch {
			case w == nil:
				continue
			case slices.ContainsFunc(m.selecting[w.Namespace], func(s *Service) bool { return s.takes(w) }):
				return false
			case gone[w.Namespace] == nil:
				gone[w.Namespace] = map[*Workload]bool{}
			}
			if gone[w.Namespace][w] = true; w == c.To {
				come[w.Namespace] = append(come[w.Namespace], w)
			}
		}
	}
	if len(gone) == 0 {
		return true
	}
	m.workloads = maps.Clone(m.workloads)
	for namespace, left := range gone {
		stay := make([]*Workload, 0, len(m.workloads[namespace])+len(come[namespace]))
		for _, w := range m.workloads[namespace] {
			if !left[w] {
				stay = append(stay, w)
			}
		}
		m.workloads[namespace] = append(stay, come[namespace]...)
	}
	return true
}

// withWorkloads returns s with the workloads that it selects as further endpoints. The registry of a service lists the
// service's endpoints itself, and knows which of them are ready: of its own workloads the selector takes none.
func (m *Mesh) withWorkloads(s *Service) *Service {
	inputs := selection{service: s}
	for _, w := range m.workloads[s.Namespace] {
		if s.takes(w) {
			inputs.workloads = append(inputs.workloads, w)
		}
	}
	if len(inputs.workloads) == 0 {
		return s
	}
	return Recall(m.memory, "workloads of "+s.declaration(), inputs, selection.join)
}

// selection is a service and the workloads that it selects.
type selection struct {
	service   *Service
	workloads []*Workload
}

func (s selection) Same(o selection) bool {
	return s.service == o.service && slices.Equal(s.workloads, o.workloads)
}

func (s selection) join() *Service {
	all := *s.service
	all.Endpoints = slices.Clone(all.Endpoints)
	for _, w := range s.workloads {
		all.Endpoints = append(all.Endpoints, w.endpoint())
	}
	return &all
}

func sameWorkload(a, b *Workload) bool { return a == b || reflect.DeepEqual(a, b) }
