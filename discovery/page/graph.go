package page

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// maxGroups bounds the groups of proxies whose scopes are made for one graph: of 1,000 services each takes about a
// millisecond.
const maxGroups = 40

// Graph names who may reach a service, and where its requests go.
type Graph struct {
	Host     string   `json:"host"` // "" for none
	Callers  []Caller `json:"callers"`
	More     int      `json:"more,omitempty"` // groups of callers that are not judged
	Policies []string `json:"policies"`       // that its endpoints' proxies ask
	Ways     []Way    `json:"ways"`
}

// Caller is a group of connected sidecars with one namespace and Sidecar.
type Caller struct {
	Namespace string `json:"namespace"`
	Sidecar   string `json:"sidecar,omitempty"` // NAMESPACE/NAME of the object that narrows what they see
	Proxies   int    `json:"proxies"`
	Sees      bool   `json:"sees"` // the service is in what they are sent
}

// Way is a share of the requests for the host.
type Way struct {
	Match   string  `json:"match,omitempty"`
	To      string  `json:"to"`
	Percent float64 `json:"percent"`
	By      string  `json:"by,omitempty"` // the object
	At      string  `json:"at,omitempty"` // where that is
	Gateway bool    `json:"gateway,omitempty"`
}

func graphOf(m *model.Mesh, callers []model.Proxy, host string) Graph {
	g := Graph{Host: host, Callers: []Caller{}, Policies: []string{}, Ways: []Way{}}
	if host == "" {
		return g
	}
	g.callers(m, callers)
	if s := m.Service(host); s != nil {
		for _, e := range s.Endpoints {
			for _, p := range m.Policies(s.Namespace, e.Labels) {
				name := p.Namespace + "/" + p.Name
				if p.Spec != nil {
					name = p.Spec.GetAction().String() + " " + name
				}
				if !slices.Contains(g.Policies, name) {
					g.Policies = append(g.Policies, name)
				}
			}
		}
	}
	for _, w := range m.Ways(host) {
		to := cmp.Or(w.To, "answers "+w.Instead)
		if w.Subset != "" {
			to += ", subset " + w.Subset
		}
		if w.Port != 0 {
			to += fmt.Sprintf(", port %d", w.Port)
		}
		by := w.Rule.Kind + " " + w.Rule.Namespace + "/" + w.Rule.Name
		g.Ways = append(g.Ways, Way{Match: w.Match, To: to, Percent: w.Percent, By: by, At: w.Rule.Origin.String(), Gateway: w.Gateway})
	}
	if len(g.Ways) == 0 {
		g.Ways = append(g.Ways, Way{To: host, Percent: 100})
	}
	return g
}

// callers groups the sidecars, and says which groups see the host.
func (g *Graph) callers(m *model.Mesh, all []model.Proxy) {
	labels := map[Caller]map[string]string{}
	counts := map[Caller]int{}
	for _, p := range all {
		if p.Gateway {
			continue
		}
		key := Caller{Namespace: p.Namespace}
		if s := m.Sidecar(p.Namespace, p.Labels); s != nil {
			key.Sidecar = s.Namespace + "/" + s.Name
		}
		counts[key]++
		labels[key] = p.Labels
	}
	for key, n := range counts {
		key.Proxies = n
		g.Callers = append(g.Callers, key)
	}
	sort.Slice(g.Callers, func(i, j int) bool {
		a, b := g.Callers[i], g.Callers[j]
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Sidecar, b.Sidecar)) < 0
	})
	g.More = max(len(g.Callers)-maxGroups, 0)
	g.Callers = g.Callers[:len(g.Callers)-g.More]
	for i, c := range g.Callers {
		of := labels[Caller{Namespace: c.Namespace, Sidecar: c.Sidecar}]
		g.Callers[i].Sees = m.Scope(c.Namespace, of).Service(g.Host) != nil
	}
}
