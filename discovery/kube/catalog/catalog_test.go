package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// world is a catalog, and the groups that it has returned.
type world struct {
	*Catalog
	groups map[string]model.Group
}

func newWorld() *world { return &world{New(Options{Cluster: "c1"}), map[string]model.Group{}} }

// put puts objects, as YAML documents.
func (w *world) put(t *testing.T, objects ...string) *world {
	t.Helper()
	for _, text := range objects {
		for document := range strings.SplitSeq(text, "\n---\n") {
			o := parse(t, document)
			w.Put(o, model.Origin{})
		}
	}
	return w
}

func parse(t *testing.T, document string) any {
	t.Helper()
	var head struct{ Kind string }
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		t.Fatal(err)
	}
	o := map[string]any{
		"Service": &corev1.Service{}, "EndpointSlice": &discoveryv1.EndpointSlice{}, "Pod": &corev1.Pod{}, "Node": &corev1.Node{},
		"Namespace": &corev1.Namespace{},
	}[head.Kind]
	if err := yaml.UnmarshalStrict([]byte(document), o); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return o
}

// take applies the changes, and returns their keys.
func (w *world) take() []string {
	changes := w.Changes()
	for key, group := range changes {
		if w.groups[key] = group; group.Empty() {
			delete(w.groups, key)
		}
	}
	return slices.Sorted(maps.Keys(changes))
}

// endpoints returns the endpoints of a service, a line for each.
func (w *world) endpoints(name string) (out []string) {
	w.take()
	for _, s := range w.groups["Service/shop/"+name].Services {
		for _, e := range s.Endpoints {
			out = append(out, line(s, e))
		}
	}
	return out
}

func line(s *model.Service, e model.Endpoint) string {
	text := e.Address
	for _, p := range s.Ports {
		if n := e.PortOn(p); n != 0 {
			text += fmt.Sprintf(" %s=%d", p.Name, n)
		}
	}
	for _, part := range []string{e.Labels["version"], e.ServiceAccount, e.Locality.String(), e.Network, e.Health.String()} {
		if part != "" && part != "healthy" {
			text += " " + part
		}
	}
	return text
}

func (w *world) want(t *testing.T, name string, lines ...string) {
	t.Helper()
	if got := w.endpoints(name); !slices.Equal(got, lines) {
		t.Errorf("the endpoints of %s are\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

const web = `
kind: Service
metadata: {name: web, namespace: shop, uid: s1}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}`

// slicing is an EndpointSlice of a service, with the endpoints as flow mappings.
func slicing(name, service string, endpoints ...string) string {
	return fmt.Sprintf(`
kind: EndpointSlice
metadata: {name: %s, namespace: shop, labels: {kubernetes.io/service-name: %s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [%s]`, name, service, strings.Join(endpoints, ", "))
}

func at(address string) string { return "{addresses: [" + address + "]}" }

func of(pod, uid, address string) string {
	return fmt.Sprintf("{addresses: [%s], targetRef: {kind: Pod, name: %s, namespace: shop, uid: %s}, nodeName: n1, zone: z9}", address, pod, uid)
}

func running(name, uid, address, version string) string {
	return fmt.Sprintf(`
kind: Pod
metadata: {name: %s, namespace: shop, uid: %s, labels: {app: web, version: %s}}
spec: {serviceAccountName: web-account, nodeName: n1, containers: []}
status: {phase: Running, podIP: %s, podIPs: [{ip: %s}], conditions: [{type: Ready, status: "True"}]}`, name, uid, version, address, address)
}

const n1 = `
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1, topology.istio.io/subzone: s1}}`

func TestAnEndpointIsThereBeforeItsPod(t *testing.T) {
	w := newWorld().put(t, slicing("web-1", "web", of("a", "u1", "10.0.0.1")))
	if got := w.take(); len(got) != 0 {
		t.Errorf("a slice without its Service changes %q", got)
	}
	w.put(t, web).want(t, "web", "10.0.0.1 http=8080 /z9")
	w.put(t, running("a", "u1", "10.0.0.1", "v1")).want(t, "web", "10.0.0.1 http=8080 v1 web-account /z9")
	w.put(t, n1).want(t, "web", "10.0.0.1 http=8080 v1 web-account r1/z1/s1")
	w.Delete(Key{Pod, "shop", "a"})
	w.want(t, "web", "10.0.0.1 http=8080 r1/z1/s1")
	w.put(t, strings.Replace(n1, "zone: z1", "zone: z2", 1)).want(t, "web", "10.0.0.1 http=8080 r1/z2/s1")
	w.Delete(Key{EndpointSlice, "shop", "web-1"})
	w.want(t, "web")
	w.Delete(Key{Service, "shop", "web"})
	if w.take(); len(w.groups) != 0 {
		t.Errorf("left are %v", w.groups)
	}
}

// A new Pod may have the name of an old one (StatefulSet), or its address.
func TestAPodIsNotAnother(t *testing.T) {
	w := newWorld().put(t, web, running("a", "u1", "10.0.0.1", "v1"), slicing("web-1", "web", of("a", "u1", "10.0.0.1")))
	w.want(t, "web", "10.0.0.1 http=8080 v1 web-account /z9")
	w.put(t, running("a", "u2", "10.0.0.2", "v2")).want(t, "web", "10.0.0.1 http=8080 /z9")
	w.put(t, slicing("web-1", "web", of("a", "u2", "10.0.0.2"))).want(t, "web", "10.0.0.2 http=8080 v2 web-account /z9")

	gone := strings.Replace(of("b", "u3", "10.0.0.2"), "nodeName", "conditions: {ready: false}, nodeName", 1)
	w.put(t, slicing("web-0", "web", of("b", "u3", "10.0.0.2"))) // it had the address before, and its slice is late
	w.want(t, "web", "10.0.0.2 http=8080 v2 web-account /z9")
	w.put(t, slicing("web-0", "web", gone))
	w.want(t, "web", "10.0.0.2 http=8080 v2 web-account /z9")
}

func TestASliceMoves(t *testing.T) {
	other := strings.NewReplacer("web", "other", "10.96.0.1", "10.96.0.2").Replace(web)
	w := newWorld().put(t, web, other, slicing("one", "web", at("10.0.0.1")), slicing("two", "web", at("10.0.0.2")))
	w.want(t, "web", "10.0.0.1 http=8080", "10.0.0.2 http=8080")
	w.put(t, slicing("two", "other", at("10.0.0.2")))
	if got := w.take(); !slices.Equal(got, []string{"Service/shop/other", "Service/shop/web"}) {
		t.Errorf("changed are %q", got)
	}
	w.want(t, "web", "10.0.0.1 http=8080")
	w.want(t, "other", "10.0.0.2 http=8080")
	w.put(t, strings.Replace(slicing("two", "other", at("10.0.0.2")), "kubernetes.io/service-name", "x", 1))
	w.want(t, "other")
}

func TestSlicesAreOneService(t *testing.T) {
	six := func(s string) string { return strings.Replace(s, "IPv4", "IPv6", 1) }
	dual := strings.Replace(web, "selector", "ipFamilies: [IPv4, IPv6], selector", 1)
	ports := func(ports, s string) string {
		return strings.Replace(s, "ports: [{name: http, port: 8080}]", "ports: "+ports, 1)
	}
	metrics := strings.Replace(web, "ports: [", "ports: [{name: metrics, port: 9090}, ", 1)
	for name, test := range map[string]struct {
		objects []string
		want    []string
	}{
		"several": {
			[]string{web, slicing("b", "web", at("10.0.0.2")), slicing("a", "web", at("10.0.0.1"))},
			[]string{"10.0.0.1 http=8080", "10.0.0.2 http=8080"},
		},
		"an endpoint that moves is in two": {
			[]string{web, slicing("a", "web", at("10.0.0.1")), slicing("b", "web", at("10.0.0.1"), at("10.0.0.2"))},
			[]string{"10.0.0.1 http=8080", "10.0.0.2 http=8080"},
		},
		"the healthy form of two counts": {
			[]string{
				web, slicing("a", "web", "{addresses: [10.0.0.1], conditions: {ready: false}}"), slicing("b", "web", at("10.0.0.1")),
				slicing("c", "web", "{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}"),
			},
			[]string{"10.0.0.1 http=8080"},
		},
		"a named port has other numbers": {
			[]string{web, slicing("a", "web", at("10.0.0.1")), ports("[{name: http, port: 9000}]", slicing("b", "web", at("10.0.0.2")))},
			[]string{"10.0.0.1 http=8080", "10.0.0.2 http=9000"},
		},
		"a port is not everywhere": {
			[]string{metrics, slicing("a", "web", at("10.0.0.1")), ports("[{name: metrics, port: 9091}, {name: http, port: 8080}]", slicing("b", "web", at("10.0.0.2")))},
			[]string{"10.0.0.1 http=8080", "10.0.0.2 metrics=9091 http=8080"},
		},
		"a slice per port, as Endpoints are mirrored": {
			[]string{metrics, slicing("a", "web", at("10.0.0.1")), ports("[{name: metrics, port: 9091}]", slicing("b", "web", at("10.0.0.1")))},
			[]string{"10.0.0.1 http=8080", "10.0.0.1 metrics=9091"},
		},
		"a port that the service does not have": {
			[]string{web, ports("[{name: other, port: 1}]", slicing("a", "web", at("10.0.0.1")))}, nil,
		},
		"no list of ports is every port": {
			[]string{web, ports("null", slicing("a", "web", at("10.0.0.1")))},
			[]string{"10.0.0.1 http=8080"},
		},
		"a port without a number is the service's": {
			[]string{web, ports("[{name: http}]", slicing("a", "web", at("10.0.0.1")))},
			[]string{"10.0.0.1 http=8080"},
		},
		"an endpoint's further addresses are not other endpoints": {
			[]string{web, slicing("a", "web", "{addresses: [10.0.0.1, 10.0.0.2]}")},
			[]string{"10.0.0.1 http=8080"},
		},
		"a pod of both families is one endpoint, of the first": {
			[]string{dual, six(slicing("a", "web", of("a", "u1", "fd00::1"))), slicing("b", "web", of("a", "u1", "10.0.0.1"))},
			[]string{"10.0.0.1 http=8080 /z9"},
		},
		"a pod of the other family alone is one as well": {
			[]string{dual, six(slicing("a", "web", of("a", "u1", "FD00::1"))), slicing("b", "web", of("b", "u2", "10.0.0.1"))},
			[]string{"fd00::1 http=8080 /z9", "10.0.0.1 http=8080 /z9"},
		},
		"endpoints without a pod are all there": {
			[]string{dual, six(slicing("a", "web", at("fd00::1"))), slicing("b", "web", at("10.0.0.1"))},
			[]string{"fd00::1 http=8080", "10.0.0.1 http=8080"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			newWorld().put(t, test.objects...).want(t, "web", test.want...)
			slices.Reverse(test.objects)
			newWorld().put(t, test.objects...).want(t, "web", test.want...)
		})
	}
}

func TestHealth(t *testing.T) {
	for conditions, want := range map[string]string{
		"{}":                               "",
		"{ready: true}":                    "",
		"{ready: true, terminating: true}": "", // of publishNotReadyAddresses alone
		"{ready: false}":                   " not ready",
		"{ready: false, serving: false, terminating: false}": " not ready",
		"{ready: false, serving: true, terminating: false}":  " not ready",
		"{ready: false, serving: true, terminating: true}":   " terminating",
		"{ready: false, serving: false, terminating: true}":  " not ready",
		"{ready: false, terminating: true}":                  " not ready",
	} {
		listing := slicing("a", "web", "{addresses: [10.0.0.1], conditions: "+conditions+"}")
		if got := newWorld().put(t, web, listing).endpoints("web"); !slices.Equal(got, []string{"10.0.0.1 http=8080" + want}) {
			t.Errorf("%s: %q, want%s", conditions, got, want)
		}
		always := strings.Replace(web, "selector", "publishNotReadyAddresses: true, selector", 1)
		newWorld().put(t, always, listing).want(t, "web", "10.0.0.1 http=8080")
	}
}

// A Pod has a name of its own below a headless Service alone, and only one that DNS can have.
func TestHostnames(t *testing.T) {
	listing := slicing("a", "web", "{addresses: [10.0.0.1], hostname: web-0}", "{addresses: [10.0.0.2], hostname: \"Web.1\"}", at("10.0.0.3"))
	headless := strings.Replace(web, "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1]", "clusterIP: None", 1)
	for service, want := range map[string][]string{web: {"", "", ""}, headless: {"web-0", "", ""}} {
		w := newWorld().put(t, service, listing)
		w.take()
		var got []string
		for _, e := range w.groups["Service/shop/web"].Services[0].Endpoints {
			got = append(got, e.Hostname)
		}
		if !slices.Equal(got, want) {
			t.Errorf("hostnames are %q, want %q:%s", got, want, service)
		}
	}
}

// Heartbeats of nodes and of slices' controllers come all the time.
func TestNothingChanges(t *testing.T) {
	w := newWorld().put(t, n1, web, running("a", "u1", "10.0.0.1", "v1"), slicing("a", "web", of("a", "u1", "10.0.0.1")))
	if got := w.take(); !slices.Equal(got, []string{"Pod/shop/a", "Service/shop/web"}) {
		t.Errorf("changed are %q", got)
	}
	w.put(t, n1+"\nstatus: {conditions: [{type: Ready, status: \"True\"}]}", web, running("a", "u1", "10.0.0.1", "v1"),
		strings.Replace(slicing("a", "web", of("a", "u1", "10.0.0.1")), "name: a,", "name: a, resourceVersion: \"7\",", 1))
	w.Delete(Key{Pod, "shop", "unknown"})
	w.Delete(Key{EndpointSlice, "shop", "unknown"})
	w.Delete(Key{Node, "", "unknown"})
	if got := w.Changes(); len(got) != 0 {
		t.Errorf("changed are %v", got)
	}
}

// A new list has all objects of a kind.
func TestKeep(t *testing.T) {
	w := newWorld().put(t, web, slicing("a", "web", at("10.0.0.1")), slicing("b", "web", at("10.0.0.2")), running("a", "u1", "10.0.0.1", "v1"))
	w.take()
	w.Keep(EndpointSlice, func(key Key) bool { return key.Name == "b" })
	w.want(t, "web", "10.0.0.2 http=8080")
	w.Keep(Pod, func(Key) bool { return false })
	w.Keep(Node, func(Key) bool { return false })
	w.Keep(Service, func(Key) bool { return false })
	if w.take(); len(w.groups) != 0 {
		t.Errorf("left are %v", w.groups)
	}
}

func TestNetworks(t *testing.T) {
	system := "kind: Namespace\nmetadata: {name: istio-system, labels: {topology.istio.io/network: east}}"
	labelled := strings.Replace(running("b", "u2", "10.0.0.2", "v1"), "labels: {", "labels: {topology.istio.io/network: west, ", 1)
	w := newWorld().put(t, web, running("a", "u1", "10.0.0.1", "v1"), labelled, slicing("a", "web", of("a", "u1", "10.0.0.1"), of("b", "u2", "10.0.0.2")))
	w.want(t, "web", "10.0.0.1 http=8080 v1 web-account /z9", "10.0.0.2 http=8080 v1 web-account /z9 west")
	w.put(t, system).want(t, "web", "10.0.0.1 http=8080 v1 web-account /z9 east", "10.0.0.2 http=8080 v1 web-account /z9 west")
	if got := w.groups["Pod/shop/a"].Workloads[0].Network; got != "east" {
		t.Errorf("the network of the workload is %q", got)
	}
	w.Keep(Namespace, func(Key) bool { return false })
	w.want(t, "web", "10.0.0.1 http=8080 v1 web-account /z9", "10.0.0.2 http=8080 v1 web-account /z9 west")
}

// The hosts of Services are those of the cluster's domain.
func TestDomain(t *testing.T) {
	w := &world{New(Options{Domain: "corp.example"}), map[string]model.Group{}}
	w.put(t, "kind: Service\nmetadata: {namespace: shop, name: web}\nspec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}").take()
	if s := w.groups["Service/shop/web"].Services; len(s) != 1 || s[0].Host != "web.shop.svc.corp.example" {
		t.Errorf("got %+v", s)
	}
}
