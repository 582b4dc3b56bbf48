package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// directory is a directory of objects, with the groups made from it.
type directory struct {
	*Manifests
	groups   map[string]model.Group
	problems []string
}

func read(t *testing.T, text string) *directory {
	t.Helper()
	d := &directory{New("", nil), map[string]model.Group{}, nil}
	d.put(t, text)
	return d
}

func (d *directory) put(t *testing.T, text string) {
	t.Helper()
	objects, problems := config.Decode("x.yaml", []byte(text))
	for _, o := range objects {
		problems = append(problems, d.Put(o)...)
	}
	d.problems = nil
	d.take()
	for _, p := range problems {
		d.problems = append(d.problems, p.String())
	}
}

func (d *directory) take() {
	groups, problems := d.Changes()
	for key, g := range groups {
		d.groups[key] = g
	}
	for _, p := range problems {
		d.problems = append(d.problems, p.String())
	}
}

// endpoints returns the endpoints of a service of namespace default, a line for each.
func (d *directory) endpoints(service string) (out []string) {
	for _, s := range d.groups["Service/default/"+service].Services {
		for _, e := range s.Endpoints {
			line := e.Address
			for _, p := range s.Ports {
				line += fmt.Sprintf(" %d", e.PortOn(p))
			}
			for _, word := range []string{e.Labels["version"], e.ServiceAccount, e.Locality.String(), e.Health.String()} {
				if word != "" && word != "healthy" {
					line += " " + word
				}
			}
			out = append(out, line)
		}
	}
	return out
}

const (
	reviews = `
{apiVersion: v1, kind: Service, metadata: {name: reviews}, spec: {selector: {app: reviews}, ports: [{name: http, port: 80, targetPort: web}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: reviews-v1}, spec: {template: {metadata: {labels: {app: reviews, version: v1}},
  spec: {serviceAccountName: bookinfo-reviews, containers: [{name: reviews, ports: [{name: admin, containerPort: 1}, {name: web, containerPort: 9080}]}]}}}}
`
	second = `---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: reviews-v2}, spec: {template: {metadata: {labels: {app: reviews, version: v2}},
  spec: {containers: [{name: reviews, ports: [{name: web, containerPort: 9080}]}]}}}}
`
	pod = `---
{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: reviews, version: v9}}, spec: {nodeName: n, containers: [{name: c, ports: [{name: web, containerPort: 9082}]}]},
  status: {podIP: 10.0.0.9, phase: Running}}
---
{apiVersion: v1, kind: Node, metadata: {name: n, labels: {topology.kubernetes.io/region: r}}}
`
)

// A directory has no controllers that list the pods of a Service: the endpoints follow from its objects.
func TestDirectory(t *testing.T) {
	endpointsOf := func(subsets string) string {
		return "---\n{apiVersion: v1, kind: Endpoints, metadata: {name: reviews}, subsets: [" + subsets + "]}\n"
	}
	slice := func(endpoints string) string {
		return "---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s, labels: {kubernetes.io/service-name: reviews}}, addressType: IPv4,\n" +
			"  ports: [{name: http, port: 9080}], endpoints: [" + endpoints + "]}\n"
	}
	for name, test := range map[string]struct {
		text     string
		want     []string
		problems []string
	}{
		"Endpoints": {
			reviews + endpointsOf("{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], notReadyAddresses: [{ip: 10.0.0.3}], ports: [{name: http, port: 9080}]}"),
			[]string{"10.0.0.1 9080 v1 bookinfo-reviews", "10.0.0.2 9080 v1 bookinfo-reviews", "10.0.0.3 9080 v1 bookinfo-reviews not ready"},
			nil,
		},
		"Endpoints of two port numbers": {
			reviews + endpointsOf("{addresses: [{ip: 10.0.0.1}], ports: [{name: http, port: 9080}]}, {addresses: [{ip: 10.0.0.2}], ports: [{name: http, port: 9081}]}"),
			[]string{"10.0.0.1 9080 v1 bookinfo-reviews", "10.0.0.2 9081 v1 bookinfo-reviews"},
			nil,
		},
		"Endpoints of IPv6": {
			reviews + endpointsOf("{addresses: [{ip: 'FD00::1'}], ports: [{name: http, port: 9080}]}"),
			[]string{"fd00::1 9080 v1 bookinfo-reviews"},
			nil,
		},
		"Endpoints with Pods and a node": {
			reviews + pod + endpointsOf("{addresses: [{ip: 10.0.0.9, nodeName: n, targetRef: {kind: Pod, name: p}}], ports: [{name: http, port: 9082}]}"),
			[]string{"10.0.0.9 9082 v9 default r"},
			[]string{`x.yaml:2: warning: Service default/reviews: spec.ports[0].targetPort: is "web", which is 9080 of Deployment reviews-v1 and 9082 of Pod p: 9080 is dialled where an endpoint says nothing else`},
		},
		"the same in an EndpointSlice and in Endpoints": {
			reviews + slice("{addresses: [10.0.0.1]}") + endpointsOf("{addresses: [{ip: 10.0.0.1}], ports: [{name: http, port: 9080}]}"),
			[]string{"10.0.0.1 9080 v1 bookinfo-reviews"},
			nil,
		},
		"an address that is none": {
			reviews + endpointsOf("{addresses: [{ip: here}, {ip: 10.0.0.1}], ports: [{name: http, port: 9080}]}"),
			[]string{"10.0.0.1 9080 v1 bookinfo-reviews"},
			nil,
		},
		"an EndpointSlice of the only Deployment": {
			reviews + slice("{addresses: [10.0.0.1]}"), []string{"10.0.0.1 9080 v1 bookinfo-reviews"}, nil,
		},
		"of two Deployments the pod's name tells": {
			reviews + second + slice("{addresses: [10.0.0.1], targetRef: {kind: Pod, name: reviews-v2-5d8f9c7b6d-x2x4z}}, {addresses: [10.0.0.2], targetRef: {kind: Pod, name: reviews-v1-5d8f9c7b6d-x2x4z}}, {addresses: [10.0.0.3]}"),
			[]string{"10.0.0.1 9080 v2 default", "10.0.0.2 9080 v1 bookinfo-reviews", "10.0.0.3 9080"},
			nil,
		},
		"of a StatefulSet and a DaemonSet too": {
			strings.NewReplacer("Deployment, metadata: {name: reviews-v1", "StatefulSet, metadata: {name: reviews", "Deployment", "DaemonSet").Replace(reviews+second) +
				slice("{addresses: [10.0.0.1], targetRef: {kind: Pod, name: reviews-0}}, {addresses: [10.0.0.2], targetRef: {kind: Pod, name: reviews-v2-x2x4z}}, {addresses: [10.0.0.3], targetRef: {kind: Pod, name: reviews-v2-5d8f9c7b6d-x2x4z}}"),
			[]string{"10.0.0.1 9080 v1 bookinfo-reviews", "10.0.0.2 9080 v2 default", "10.0.0.3 9080"},
			nil,
		},
		"Pods without any EndpointSlice": {
			"{apiVersion: v1, kind: Service, metadata: {name: reviews}, spec: {selector: {app: reviews}, ports: [{name: http, port: 80, targetPort: web}]}}\n" + pod +
				strings.NewReplacer("name: p", "name: q", "10.0.0.9", "10.0.0.8", "9082", "9080", "phase: Running", "phase: Running, conditions: [{type: Ready, status: 'False'}]").Replace(pod[:strings.Index(pod, "---\n{apiVersion: v1, kind: Node")]) +
				strings.NewReplacer("name: p", "name: r", "10.0.0.9", "10.0.0.7", "Running", "Failed").Replace(pod[:strings.Index(pod, "---\n{apiVersion: v1, kind: Node")]),
			[]string{"10.0.0.9 9082 v9 default r", "10.0.0.8 9080 v9 default r not ready"},
			[]string{`x.yaml:1: warning: Service default/reviews: spec.ports[0].targetPort: is "web", which is 9082 of Pod p and 9080 of Pod q: 9082 is dialled where an endpoint says nothing else`},
		},
		"an EndpointSlice says it all": {
			reviews + strings.ReplaceAll(pod, "9082", "9080") + slice("{addresses: [10.0.0.1]}"), []string{"10.0.0.1 9080 v1 bookinfo-reviews"}, nil,
		},
		"nothing has the port's name": {
			strings.ReplaceAll(reviews, "name: web", "name: other"), nil,
			[]string{`x.yaml:2: warning: Service default/reviews: spec.ports[0].targetPort: is "web", which is no port of the Pods and Deployments that it selects: 80 is dialled where an endpoint says nothing else`},
		},
		"a typing error in a Deployment": {
			strings.ReplaceAll(reviews, "containerPort: 9080", "containerport: 9080, containerPort: 9080"), nil,
			[]string{`x.yaml:4: warning: Deployment default/reviews-v1: unknown field "spec.template.spec.containers[0].ports[1].containerport", ignored`},
		},
		"a Deployment that cannot be read": {
			strings.ReplaceAll(reviews, "containerPort: 9080", "containerPort: many"), nil,
			[]string{
				`x.yaml:2: warning: Service default/reviews: spec.ports[0].targetPort: is "web", which is no port of the Pods and Deployments that it selects: 80 is dialled where an endpoint says nothing else`,
				"x.yaml:4: error: Deployment default/reviews-v1: cannot be read: json: cannot unmarshal string into Go struct field",
			},
		},
		"accounts say nothing themselves": {"{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := read(t, test.text)
			if got := d.endpoints("reviews"); !slices.Equal(got, test.want) {
				t.Errorf("the endpoints are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if !slices.EqualFunc(d.problems, test.problems, strings.HasPrefix) {
				t.Errorf("it says\n%s\nwant\n%s", strings.Join(d.problems, "\n"), strings.Join(test.problems, "\n"))
			}
		})
	}
}

// The objects from which endpoints are made are added and removed, in any order.
func TestDirectoryChanges(t *testing.T) {
	d := read(t, "{apiVersion: v1, kind: Endpoints, metadata: {name: reviews}, subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{name: http, port: 9080}]}]}")
	want := func(lines ...string) {
		t.Helper()
		if got := d.endpoints("reviews"); !slices.Equal(got, lines) {
			t.Errorf("the endpoints are %q, want %q", got, lines)
		}
	}
	gone := func(kind, name string) {
		d.Delete(model.Meta{Kind: kind, Namespace: "default", Name: name})
		d.take()
	}
	want()
	d.put(t, reviews)
	want("10.0.0.1 9080 v1 bookinfo-reviews")
	if target := d.groups["Service/default/reviews"].Services[0].Ports[0].Target; target != 9080 {
		t.Errorf("the named port is %d, want 9080", target)
	}
	d.put(t, strings.ReplaceAll(reviews, "version: v1", "version: v3"))
	want("10.0.0.1 9080 v3 bookinfo-reviews")
	d.put(t, second)
	want("10.0.0.1 9080")
	gone("Deployment", "reviews-v1")
	want("10.0.0.1 9080 v2 default")
	d.put(t, pod)
	gone("Endpoints", "reviews")
	want("10.0.0.9 9082 v9 default r")
	gone("Pod", "p")
	want()
	gone("Deployment", "reviews-v2")
	if target := d.groups["Service/default/reviews"].Services[0].Ports[0].Target; target != 0 {
		t.Errorf("the named port is %d, which nothing has", target)
	}
	gone("Service", "reviews")
	for key, g := range d.groups {
		if !g.Empty() && key != "Node//n" {
			t.Errorf("%s is left: %+v", key, g)
		}
	}
	if again, problems := d.Changes(); len(again)+len(problems) > 0 {
		t.Errorf("nothing changed, and it tells %v and %v", again, problems)
	}
}

// A Deployment is sent as a template: with its labels, and without addresses of pods. A Deployment without replicas,
// and a ReplicaSet of a Deployment, are not templates.
func TestTemplates(t *testing.T) {
	d := read(t, reviews+second+
		"---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: off}, spec: {replicas: 0, template: {metadata: {labels: {app: off}}}}}\n"+
		"---\n{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: reviews-v2-5d8f9c7b6d, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: reviews-v2, uid: u, controller: true}]},"+
		" spec: {template: {metadata: {labels: {app: reviews}}}}}\n")
	var got []string
	for key, g := range d.groups {
		for _, o := range g.Objects {
			got = append(got, fmt.Sprintf("%s %s %v", key, o.Origin, model.TemplateLabels(o)))
		}
	}
	slices.Sort(got)
	want := []string{
		"Deployment/default/reviews-v1 x.yaml:4 map[app:reviews version:v1]", "Deployment/default/reviews-v2 x.yaml:7 map[app:reviews version:v2]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the templates are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
