package manifest

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

const bookinfo = `
apiVersion: v1
kind: Service
metadata: {name: reviews, labels: {app: reviews}}
spec: {ports: [{port: 9080, name: http}], selector: {app: reviews}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: reviews-1, labels: {kubernetes.io/service-name: reviews}}
addressType: IPv4
ports: [{name: http, port: 9080}]
endpoints:
- addresses: [10.0.0.1]
  conditions: {ready: true}
  targetRef: {kind: Pod, name: reviews-v1, namespace: default, uid: "1"}
- addresses: [10.0.0.2]
  conditions: {ready: true}
---
apiVersion: v1
kind: Pod
metadata: {name: reviews-v1, uid: "1", labels: {app: reviews, version: v1}}
spec: {nodeName: one, serviceAccountName: bookinfo-reviews}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}], phase: Running}
---
apiVersion: v1
kind: Node
metadata: {name: one, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z}}
---
apiVersion: v1
kind: Service
metadata: {name: typo}
spec: {ports: [{prot: 9080, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: wrong}
spec: {ports: 80}
---
apiVersion: v1
kind: Service
metadata: {name: port}
spec: {ports: [{port: 70000}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: reviews-v1}
spec: {template: {metadata: {labels: {app: reviews}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
`

func TestBookinfo(t *testing.T) {
	objects, problems := config.Decode("bookinfo.yaml", []byte(bookinfo))
	m := New("", nil)
	for _, o := range objects {
		problems = append(problems, m.Put(o)...)
	}
	var said []string
	for _, p := range problems {
		said = append(said, p.String())
	}
	text := strings.Join(said, "\n")
	for _, want := range []string{
		`bookinfo.yaml:29: warning: Service default/typo: unknown field "spec.ports[0].prot", ignored`,
		"bookinfo.yaml:34: error: Service default/wrong: cannot be read: json: cannot unmarshal number",
		"bookinfo.yaml:49: warning: ConfigMap default/other: ConfigMap of v1 is not supported, ignored",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	groups, _ := m.Changes()
	if got := groups["manifest Service/default/wrong"].Faults; len(got) != 1 || !strings.HasPrefix(got[0], "bookinfo.yaml:34: cannot be read") {
		t.Errorf("of the one that cannot be read: %q", got)
	}
	if got := groups["Service/default/port"].Faults; len(got) != 1 || !strings.HasPrefix(got[0], "bookinfo.yaml:39: spec.ports[0].port is 70000") {
		t.Errorf("of the one with a wrong port: %q", got)
	}
	service := groups["Service/default/reviews"].Services[0]
	if service.Host != "reviews.default.svc.cluster.local" || service.Ports[0].Protocol != model.HTTP || len(service.Endpoints) != 2 ||
		service.Origin.String() != "bookinfo.yaml:2" {
		t.Fatalf("the service is %+v", service)
	}
	if e := service.Endpoints[0]; e.Labels["version"] != "v1" || e.Locality.Zone != "z" || e.ServiceAccount != "bookinfo-reviews" || e.PortOn(service.Ports[0]) != 9080 {
		t.Errorf("its endpoint is %+v", e)
	}
	if len(groups["Pod/default/reviews-v1"].Workloads) != 1 {
		t.Errorf("there is no workload in %v", groups)
	}
	m.Delete(model.Meta{Kind: "EndpointSlice", Namespace: "default", Name: "reviews-1"})
	m.Delete(model.Meta{Kind: "Node", Namespace: "default", Name: "one"})
	got, _ := m.Changes()
	left := got["Service/default/reviews"].Services
	if len(left) != 1 || len(left[0].Endpoints) != 1 || left[0].Endpoints[0].Address != "10.0.0.1" || left[0].Endpoints[0].Locality.Zone != "" {
		t.Errorf("without its slice and its node its Pod is its endpoint, and it is %+v", got)
	}
	m.Delete(model.Meta{Kind: "Service", Namespace: "default", Name: "reviews"})
	m.Delete(model.Meta{Kind: "Service", Namespace: "default", Name: "wrong"})
	gone, _ := m.Changes()
	for _, key := range []string{"Service/default/reviews", "manifest Service/default/wrong"} {
		if got, changed := gone[key]; !changed || !got.Empty() {
			t.Errorf("%s is gone, and is sent as %+v", key, got)
		}
	}
}

// The hosts of Services are those of the cluster's domain.
func TestDomain(t *testing.T) {
	m := New("corp.example", nil)
	objects, _ := config.Decode("x.yaml", []byte("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}"))
	for _, o := range objects {
		m.Put(o)
	}
	groups, _ := m.Changes()
	if s := groups["Service/default/web"].Services; len(s) != 1 || s[0].Host != "web.default.svc.corp.example" {
		t.Errorf("got %+v", s)
	}
}
