package model

import (
	"maps"
	"reflect"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Workload is a running program that can be called: a Pod, a WorkloadEntry, an instance that is registered with Consul,
// a connected proxy.
type Workload struct {
	// Registry is the registry that has it, such as Kubernetes; "" for configuration
	Registry  string `json:"Registry"`
	Cluster   string `json:"Cluster"`   // of the registry
	Namespace string `json:"Namespace"` // services of this namespace may select it
	Name      string `json:"Name"`      // in its namespace
	// Addresses are those at which it is called; if it has an IPv4 and an IPv6 address, the first is used
	Addresses      []string          `json:"Addresses"`
	Ports          map[string]uint32 `json:"Ports"`
	Labels         map[string]string `json:"Labels"`
	ServiceAccount string            `json:"ServiceAccount"`
	Weight         uint32            `json:"Weight"` // relative to others; 0 means 1
	Locality       Locality          `json:"Locality"`
	Network        string            `json:"Network"` // from which its addresses are reachable; "" for the mesh's own
	Health         Health            `json:"Health"`
	Proxied        bool              `json:"Proxied"` // as of Endpoint
	OnNode         bool              `json:"OnNode"`  // its addresses are those of its node
	Origin         Origin            `json:"Origin"`
}

// Health defines whether a workload takes requests, as reported by its registry.
type Health uint8

const (
	HealthUnknown     Health = iota // not reported: treated as healthy
	HealthHealthy                   // it takes requests
	HealthDraining                  // it finishes its current requests and takes no new ones
	HealthUnhealthy                 // it takes no requests
	HealthTerminating               // it drains since it ends, and takes new requests as long as no other endpoint does
	HealthUnready                   // it takes no requests, and is none of its service's endpoints meanwhile: as in Kubernetes
	healths                         // how many there are
)

// Known reports whether h is one of the values above.
func (h Health) Known() bool { return h < healths }

func (h Health) String() string {
	return [healths]string{"unknown", "healthy", "draining", "unhealthy", "terminating", "not ready"}[h]
}

// TakesRequests reports whether new requests may be sent to the workload.
func (h Health) TakesRequests() bool { return h == HealthUnknown || h == HealthHealthy }

// endpoint returns the workload as an endpoint of a service that selects it.
func (w *Workload) endpoint() Endpoint {
	e := Endpoint{
		Ports: w.Ports, Labels: w.Labels, Weight: w.Weight, Locality: w.Locality, Network: w.Network, Cluster: w.Cluster,
		ServiceAccount: w.ServiceAccount, Proxied: w.Proxied, Health: w.Health,
	}
	if len(w.Addresses) > 0 { // without an address, only the gateways of its network can reach it
		e.Address = w.Addresses[0]
	}
	return e
}

// TakesMutualTLS reports whether the sidecar of the workload takes mutual TLS, so that it has a certificate of the mesh.
func (w *Workload) TakesMutualTLS() bool { return w.endpoint().TakesMutualTLS() }

// workloadOf returns the workload that a WorkloadEntry describes.
func workloadOf(e *networking.WorkloadEntry, meta Meta) *Workload {
	w := &Workload{
		Namespace: meta.Namespace, Name: meta.Name, Ports: e.Ports, Labels: workloadLabels(e, meta), ServiceAccount: e.ServiceAccount,
		Proxied: e.ServiceAccount != "", Weight: e.Weight, Locality: ParseLocality(e.Locality), Network: e.Network, Origin: meta.Origin,
	}
	if e.Address != "" {
		w.Addresses = []string{e.Address}
	}
	return w
}

// workloadLabels returns the labels of a WorkloadEntry: those of its spec, and those of its metadata whose keys the
// spec does not set.
func workloadLabels(e *networking.WorkloadEntry, meta Meta) map[string]string {
	if len(meta.Labels) == 0 {
		return e.Labels
	}
	labels := maps.Clone(meta.Labels)
	maps.Copy(labels, e.Labels)
	return labels
}

// addEntry adds the workload of a WorkloadEntry. If last has the same object, its workload is reused.
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

// takes reports whether the selector of a service selects a workload of the same namespace.
func (s *Service) takes(w *Workload) bool {
	return (s.Registry == "" || s.Registry != w.Registry) && Selects(s.Selector, w.Labels)
}

// WorkloadChange is a workload before a change, nil for a new one, and after it, nil for a removed one.
type WorkloadChange struct{ From, To *Workload }

// WorkloadChanges returns the difference between the workloads of a group before and now.
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

// moveWorkloads applies changes to the workloads of the mesh. It returns false if a service selects one of them, or if
// some object wants its address. It copies
// the lists of the namespaces concerned, once for all changes.
func (m *Mesh) moveWorkloads(changes []WorkloadChange) bool {
	gone, come := map[string][]*Workload{}, map[string][]*Workload{} // by namespace
	for _, c := range changes {
		for _, w := range []*Workload{c.From, c.To} {
			if w == nil {
				continue
			}
			if slices.ContainsFunc(m.selecting[w.Namespace], func(s *Service) bool { return s.takes(w) }) ||
				slices.ContainsFunc(w.ownAddresses(), m.inTakers) {
				return false
			}
			if gone[w.Namespace] = append(gone[w.Namespace], w); w == c.To {
				come[w.Namespace] = append(come[w.Namespace], w)
			}
		}
	}
	if len(gone) == 0 {
		return true
	}
	m.workloads, m.residents = maps.Clone(m.workloads), maps.Clone(m.residents)
	for namespace, left := range gone {
		m.workloads[namespace] = append(without(m.workloads[namespace], left), come[namespace]...)
		m.residents[namespace] = m.residents[namespace].with(left, come[namespace])
	}
	return true
}

// fewGone is how many workloads are compared one by one.
const fewGone = 8

// without returns a copy of a list without some workloads.
func without(all, gone []*Workload) []*Workload {
	left := func(w *Workload) bool { return slices.Contains(gone, w) }
	if len(gone) > fewGone {
		known := make(map[*Workload]bool, len(gone))
		for _, w := range gone {
			known[w] = true
		}
		left = func(w *Workload) bool { return known[w] }
	}
	out := make([]*Workload, 0, len(all)+1)
	for _, w := range all {
		if !left(w) {
			out = append(out, w)
		}
	}
	return out
}

// withWorkloads returns s with the workloads that it takes as additional endpoints. The registry of a service lists
// the endpoints itself and reports which are ready, so workloads of the same registry are not taken.
func (m *Mesh) withWorkloads(s *Service, taken []*Workload) *Service {
	if len(taken) == 0 {
		return s
	}
	return Recall(m.memory, "workloads of "+s.declaration(), selection{s, taken}, selection.join)
}

// takenBy returns the workloads that a service selects.
func (m *Mesh) takenBy(s *Service) (out []*Workload) {
	for _, w := range m.workloads[s.Namespace] {
		if s.takes(w) {
			out = append(out, w)
		}
	}
	return out
}

// taken is takenBy for many services, of which a namespace may have thousands, as of workloads: a workload is compared only with the services
// whose rarest label it has, which is the one that the fewest services select.
func (m *Mesh) taken(services []*Service) map[*Service][]*Workload {
	type label struct{ namespace, name, value string }
	wanted := map[label]int{}
	for _, s := range services {
		for name, value := range s.Selector {
			wanted[label{s.Namespace, name, value}]++
		}
	}
	by := map[label][]*Service{}
	for _, s := range services {
		var rarest label
		for _, name := range slices.Sorted(maps.Keys(s.Selector)) {
			if l := (label{s.Namespace, name, s.Selector[name]}); rarest.name == "" || wanted[l] < wanted[rarest] {
				rarest = l
			}
		}
		if len(s.Selector) > 0 {
			by[rarest] = append(by[rarest], s)
		}
	}
	out := map[*Service][]*Workload{}
	for namespace, workloads := range m.workloads {
		for _, w := range workloads {
			for name, value := range w.Labels {
				for _, s := range by[label{namespace, name, value}] {
					if all := out[s]; s.takes(w) && (len(all) == 0 || all[len(all)-1] != w) {
						out[s] = append(all, w)
					}
				}
			}
		}
	}
	return out
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
