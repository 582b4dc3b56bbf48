package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestServiceOf(t *testing.T) {
	http := []model.Port{{Name: "http", Number: 80, Target: 8080, Protocol: model.HTTP}}
	own := func(change func(*model.Service)) *model.Service {
		s := &model.Service{
			Right: model.RightFull, Registry: "Kubernetes", Cluster: "c1", Host: "a.shop.svc.cluster.local", Namespace: "shop", Name: "a", Resolution: model.ResolutionStatic,
			Addresses: []string{"10.96.0.1"}, Ports: http,
		}
		change(s)
		return s
	}
	const ports = "ports: [{name: http, port: 80, targetPort: 8080}]"
	for name, test := range map[string]struct {
		metadata, spec string
		want           *model.Service
	}{
		"ClusterIP": {
			"creationTimestamp: 2026-01-31T12:00:00Z", "type: ClusterIP, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], selector: {app: a}, " + ports,
			own(func(s *model.Service) {
				s.Created, s.Selector = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), map[string]string{"app": "a"}
			}),
		},
		"without a type, as a person writes it": {"", "clusterIP: 10.96.0.1, " + ports, own(func(*model.Service) {})},
		"without an address":                    {"", ports, own(func(s *model.Service) { s.Addresses = nil })},
		"dual stack": {
			"", "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, FD00::A], ipFamilies: [IPv4, IPv6], " + ports,
			own(func(s *model.Service) { s.Addresses = []string{"10.96.0.1", "fd00::a"} }),
		},
		"headless": {
			"", "clusterIP: None, clusterIPs: [None], " + ports,
			own(func(s *model.Service) { s.Addresses, s.Headless, s.Resolution = nil, true, model.ResolutionNone }),
		},
		"NodePort": {
			"", "type: NodePort, clusterIP: 10.96.0.1, ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]", own(func(*model.Service) {}),
		},
		// kube-proxy forwards external addresses to the endpoints; in the mesh they are not the service's, as in Istio:
		// a Service may name any.
		"LoadBalancer and external addresses": {
			"", "type: LoadBalancer, clusterIP: 10.96.0.1, externalIPs: [192.0.2.1], " + ports, own(func(*model.Service) {}),
		},
		"ExternalName": {
			"", "type: ExternalName, externalName: Example.COM., selector: {app: a}, " + ports,
			own(func(s *model.Service) {
				s.Addresses, s.External, s.Resolution, s.ExternalName = nil, true, model.ResolutionDNS, "example.com"
				s.Endpoints = []model.Endpoint{{Address: "example.com", Cluster: "c1"}}
				s.Ports = []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}}
			}),
		},
		"ExternalName that is an address": {
			"", "type: ExternalName, externalName: 192.0.2.1, " + ports,
			own(func(s *model.Service) {
				s.Addresses, s.External = nil, true
				s.Endpoints = []model.Endpoint{{Address: "192.0.2.1", Cluster: "c1"}}
				s.Ports = []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}}
			}),
		},
		"protocols": {
			"", `clusterIP: 10.96.0.1, ports: [{name: http, port: 80, appProtocol: kubernetes.io/h2c}, {name: grpc-api, port: 81},
			 {name: x, port: 82, appProtocol: tcp}, {name: any, port: 83}, {name: db, port: 3306}, {name: dns, port: 53, protocol: UDP},
			 {name: s, port: 99, protocol: SCTP}, {name: tls-x, port: 443, targetPort: https}]`,
			own(func(s *model.Service) {
				s.Ports = []model.Port{
					{Name: "http", Number: 80, Protocol: model.HTTP2},
					{Name: "grpc-api", Number: 81, Protocol: model.GRPC},
					{Name: "x", Number: 82, Protocol: model.TCP},
					{Name: "any", Number: 83},
					{Name: "db", Number: 3306, Protocol: model.TCP},
					{Name: "dns", Number: 53, Protocol: model.UDP},
					{Name: "tls-x", Number: 443, Protocol: model.TLS},
				}
			}),
		},
		"a number of two protocols is TCP's": {
			"", "clusterIP: 10.96.0.1, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]",
			own(func(s *model.Service) {
				s.Ports = []model.Port{{Name: "dns-tcp", Number: 53, Protocol: model.TCP}}
			}),
		},
		"exportTo": {
			`annotations: {networking.istio.io/exportTo: "., bank"}`, "clusterIP: 10.96.0.1, " + ports,
			own(func(s *model.Service) { s.ExportTo = []string{".", "bank"} }),
		},
		"node local": {
			"", "clusterIP: 10.96.0.1, internalTrafficPolicy: Local, " + ports,
			own(func(s *model.Service) { s.NodeLocal = true }),
		},
		"near ones first": {
			"", "clusterIP: 10.96.0.1, trafficDistribution: PreferClose, " + ports,
			own(func(s *model.Service) { s.Prefer = model.PreferZone }),
		},
		"those of the node first, whatever the annotation says": {
			"annotations: {networking.istio.io/traffic-distribution: PreferClose}", "clusterIP: 10.96.0.1, trafficDistribution: PreferSameNode, " + ports,
			own(func(s *model.Service) { s.Prefer = model.PreferNode }),
		},
		"near ones first, by annotation": {
			"annotations: {networking.istio.io/traffic-distribution: PreferClose}", "clusterIP: 10.96.0.1, " + ports,
			own(func(s *model.Service) { s.Prefer = model.PreferZone }),
		},
		"what is not done": {
			"", "clusterIP: 10.96.0.1, sessionAffinity: ClientIP, trafficDistribution: Sideways, " + ports,
			own(func(s *model.Service) {
				s.Ignored = []string{
					`spec.trafficDistribution is "Sideways", which is not known here: requests go to all endpoints`,
					"spec.sessionAffinity is ClientIP, which sidecars do not read, as Istio's do not: requests go to all endpoints; " +
						"for one endpoint of each client want a DestinationRule with trafficPolicy.loadBalancer.consistentHash.useSourceIp",
				}
			}),
		},
		"service accounts": {
			`annotations: {alpha.istio.io/kubernetes-serviceaccounts: "one,two", alpha.istio.io/canonical-serviceaccounts: x.example.com}`,
			"clusterIP: 10.96.0.1, " + ports,
			own(func(s *model.Service) {
				s.SubjectAltNames, s.Accounts = []string{"x.example.com"}, []string{"shop/one", "shop/two"}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().put(t, "kind: Service\nmetadata: {name: a, namespace: shop, "+test.metadata+"}\nspec: {"+test.spec+"}")
			w.take()
			if diff := cmp.Diff(model.Group{Services: []*model.Service{test.want}}, w.groups["Service/shop/a"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The accounts that an annotation names are added to those of the endpoints: certificates of all of them are accepted.
func TestSubjectsOfEndpoints(t *testing.T) {
	named := strings.Replace(web, "uid: s1", "uid: s1, annotations: {alpha.istio.io/kubernetes-serviceaccounts: z}", 1)
	w := newWorld().put(t, named, running("a", "u1", "10.0.0.1", "v1"), slicing("a", "web", of("a", "u1", "10.0.0.1")))
	w.take()
	want := []string{"shop/web-account", "shop/z"}
	if got := w.groups["Service/shop/web"].Services[0].Accounts; !slices.Equal(got, want) {
		t.Errorf("the accounts are %q, want %q", got, want)
	}
}

func TestMalformed(t *testing.T) {
	for name, test := range map[string]struct{ from, to, fault string }{
		"exportTo":         {"uid: s1", `uid: s1, annotations: {networking.istio.io/exportTo: "Shop"}`, `exportTo] has "Shop", want namespaces, ".", "*", or "~" alone`},
		"exportTo twice":   {"uid: s1", `uid: s1, annotations: {networking.istio.io/exportTo: "~,shop"}`, `exportTo] has "~", want`},
		"service accounts": {"uid: s1", "uid: s1, annotations: {alpha.istio.io/kubernetes-serviceaccounts: a b}", `has "a b", want names of service accounts`},
		"address":          {"clusterIPs: [10.96.0.1]", "clusterIPs: [None, 10.96.0.1]", `spec.clusterIPs has "None", want IP addresses, or None alone`},
		"port":             {"port: 80,", "port: 70000,", "spec.ports[0].port is 70000, want 1 to 65535"},
		"port twice":       {"ports: [", "ports: [{name: http, port: 81}, ", `spec.ports[1].name is "http", which another port of the Service has`},
		"type":             {"spec: {", "spec: {type: Loadbalancer, ", `spec.type is "Loadbalancer", want ClusterIP, NodePort, LoadBalancer or ExternalName`},
		"external name":    {"spec: {", "spec: {type: ExternalName, externalName: a_b, ", `spec.externalName is "a_b", want a DNS name`},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(web, test.from, test.to, 1)
			w := newWorld().put(t, broken)
			w.take()
			if g := w.groups["Service/shop/web"]; !g.Malformed() || len(g.Faults) != 1 || !strings.Contains(g.Faults[0], test.fault) {
				t.Errorf("of a Service that was never good: %+v, want the fault %s", g, test.fault)
			}
			w.put(t, web, slicing("a", "web", at("10.0.0.1"))).want(t, "web", "10.0.0.1 http=8080")
			if g := w.groups["Service/shop/web"]; len(g.Faults) != 0 {
				t.Errorf("mended, it has the faults %q", g.Faults)
			}
			w.put(t, broken, slicing("a", "web", at("10.0.0.2"))).want(t, "web", "10.0.0.2 http=8080")
			if g := w.groups["Service/shop/web"]; len(g.Faults) != 1 {
				t.Errorf("broken again, it has the faults %q", g.Faults)
			}
		})
	}
}

func TestSlicesThatCannotBeServed(t *testing.T) {
	w := newWorld().put(t, web, slicing("a", "web", at("10.0.0.1"), at("here")), strings.Replace(slicing("b", "web", at("a.com")), "IPv4", "FQDN", 1))
	w.want(t, "web", "10.0.0.1 http=8080")
	want := []string{`EndpointSlice a has the address "here", want an IP address`, `EndpointSlice b has the addressType "FQDN", want IPv4 or IPv6`}
	if got := w.groups["Service/shop/web"].Faults; !slices.Equal(got, want) {
		t.Errorf("the faults are %q, want %q", got, want)
	}
}

// A slice of a file may lack its addressType: its endpoints are served, by the family of its addresses, and it is named. Before,
// the Service had no endpoint and nothing was said.
func TestSliceWithoutAddressType(t *testing.T) {
	w := newWorld().put(t, web, strings.Replace(slicing("a", "web", at("10.0.0.1")), "addressType: IPv4\n", "", 1))
	w.want(t, "web", "10.0.0.1 http=8080")
	want := []string{"EndpointSlice a has no addressType, and is taken for one of IPv4; want IPv4 or IPv6"}
	if got := w.groups["Service/shop/web"].Faults; !slices.Equal(got, want) {
		t.Errorf("the faults are %q, want %q", got, want)
	}
	six := strings.Replace(web, "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1]", "clusterIP: 'fd00::1', clusterIPs: ['fd00::1'], ipFamilies: [IPv6]", 1)
	w = newWorld().put(t, six, strings.Replace(slicing("a", "web", at("fd00::7")), "addressType: IPv4\n", "", 1))
	w.want(t, "web", "fd00::7 http=8080")
}

// A port that leads to a port of Pods by its name has the number that its slices say: a gateway behind it opens that one. One
// with a number keeps it.
func TestNamedTargetPorts(t *testing.T) {
	named := strings.Replace(web, "targetPort: 8080", "targetPort: web", 1)
	w := newWorld().put(t, named)
	w.want(t, "web")
	if got := w.groups["Service/shop/web"].Services[0].Ports[0].Target; got != 0 {
		t.Errorf("without slices it leads to %d", got)
	}
	w.put(t, slicing("a", "web", at("10.0.0.1")))
	w.want(t, "web", "10.0.0.1 http=8080")
	if got := w.groups["Service/shop/web"].Services[0].Ports[0].Target; got != 8080 {
		t.Errorf("it leads to %d, want 8080", got)
	}
}

// A Service whose endpoints have thousands of faults names the first ones.
func TestManyFaultsOfEndpoints(t *testing.T) {
	var spray []string
	for i := range 1000 {
		spray = append(spray, at(fmt.Sprintf("h%03d", i)))
	}
	w := newWorld().put(t, web, slicing("a", "web", spray...))
	w.take()
	faults := w.groups["Service/shop/web"].Faults
	if n := len(faults); n != maxFaults+1 || faults[0] != `EndpointSlice a has the address "h000", want an IP address` ||
		faults[n-1] != "there are 990 more faults in its EndpointSlices" {
		t.Errorf("the faults are %q", faults)
	}
}

// Clients dial the endpoints of a headless Service, so each has a listener: an address of another Service, or of another
// namespace's Pod, would receive what is meant for these.
func TestHeadlessServiceTakesNoAddressOfOthers(t *testing.T) {
	headless := strings.Replace(strings.Replace(web, "10.96.0.1, clusterIPs: [10.96.0.1]", "None", 1), "name: web", "name: all", 1)
	foreign := strings.Replace(running("db-0", "u9", "10.0.0.9", "v1"), "namespace: shop", "namespace: bank", 1)
	w := newWorld().put(t, headless, slicing("one", "all", at("10.0.0.1"), at("10.96.0.1"), at("10.0.0.9")))
	w.want(t, "all", "10.0.0.1 http=8080", "10.96.0.1 http=8080", "10.0.0.9 http=8080")
	for _, step := range []struct {
		name   string
		change func()
		left   []string
		faults []string
	}{
		{"a Service gets the address", func() { w.put(t, web) }, []string{"10.0.0.1 http=8080", "10.0.0.9 http=8080"}, []string{
			"EndpointSlice one has the address 10.96.0.1, which is Service shop/web's",
		}},
		{"a Pod gets the other", func() { w.put(t, foreign) }, []string{"10.0.0.1 http=8080"}, []string{
			"EndpointSlice one has the address 10.96.0.1, which is Service shop/web's", "EndpointSlice one has the address 10.0.0.9, which is Pod bank/db-0's",
		}},
		{"a Pod of its own namespace has it too", func() { w.put(t, running("late", "u3", "10.0.0.9", "v1")) }, []string{"10.0.0.1 http=8080", "10.0.0.9 http=8080"}, []string{
			"EndpointSlice one has the address 10.96.0.1, which is Service shop/web's",
		}},
		{"that goes", func() { w.Delete(Key{Pod, "shop", "late"}) }, []string{"10.0.0.1 http=8080"}, []string{
			"EndpointSlice one has the address 10.96.0.1, which is Service shop/web's", "EndpointSlice one has the address 10.0.0.9, which is Pod bank/db-0's",
		}},
		{"the Service goes", func() { w.Delete(Key{Service, "shop", "web"}) }, []string{"10.0.0.1 http=8080", "10.96.0.1 http=8080"}, []string{
			"EndpointSlice one has the address 10.0.0.9, which is Pod bank/db-0's",
		}},
		{"the Pod ends", func() { w.put(t, strings.Replace(foreign, "Running", "Failed", 1)) }, []string{"10.0.0.1 http=8080", "10.96.0.1 http=8080", "10.0.0.9 http=8080"}, nil},
		{"the Pod is back", func() { w.put(t, foreign) }, []string{"10.0.0.1 http=8080", "10.96.0.1 http=8080"}, []string{
			"EndpointSlice one has the address 10.0.0.9, which is Pod bank/db-0's",
		}},
		{"the Pod has its node's address", func() { w.put(t, strings.Replace(foreign, "spec: {", "spec: {hostNetwork: true, ", 1)) }, []string{"10.0.0.1 http=8080", "10.96.0.1 http=8080", "10.0.0.9 http=8080"}, nil},
	} {
		step.change()
		w.want(t, "all", step.left...)
		if got := w.groups["Service/shop/all"].Faults; !slices.Equal(got, step.faults) {
			t.Errorf("%s: the faults are %q, want %q", step.name, got, step.faults)
		}
	}
}

// An address of another Service is no endpoint that clients dial where the Service has an address of its own.
func TestServiceMayNameAddressesOfOthers(t *testing.T) {
	w := newWorld().put(t, web, strings.NewReplacer("name: web", "name: front", "10.96.0.1", "10.96.0.2").Replace(web), slicing("one", "front", at("10.96.0.1")))
	w.want(t, "front", "10.96.0.1 http=8080")
}
