package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// What a proxy's node says that cannot be meant is named, with the remedy; what can be meant is not.
func TestNotesOfNodes(t *testing.T) {
	const want = "want one namespace in POD_NAMESPACE, or ISTIO_META_NAMESPACE, and --domain of its agent"
	pods := []*Workload{
		{Registry: "Kubernetes", Cluster: "east", Namespace: "pods", Name: "a-1", Addresses: []string{"10.1.0.1"}},
		{Registry: "Kubernetes", Cluster: "east", Namespace: "host", Name: "h-1", Addresses: []string{"10.1.0.2"}, OnNode: true},
		{Namespace: "vms", Name: "vm", Addresses: []string{"10.1.0.3"}},
	}
	capturing := map[string]string{"ISTIO_META_DNS_CAPTURE": "true"}
	for name, test := range map[string]struct {
		proxy    Proxy
		defaults map[string]string // of MeshConfig
		code     Code              // "" for no note
		message  string            // a part of it
	}{
		"its own domain":               {Proxy{Namespace: "shop", Domain: "shop.svc.cluster.local"}, nil, "", ""},
		"no domain":                    {Proxy{Namespace: "shop"}, nil, "", ""},
		"Consul's domain":              {Proxy{Namespace: "shop", Domain: "service.consul"}, nil, "", ""},
		"the domain of another":        {Proxy{Namespace: "shop", Domain: "default.svc.cluster.local"}, nil, WrongNamespace, want},
		"of no namespace":              {Proxy{Domain: "default.svc.cluster.local"}, nil, WrongNamespace, `the proxy of namespace ""`},
		"a gateway of another":         {Proxy{Namespace: "edge", Domain: "default.svc.cluster.local", Gateway: true}, nil, WrongNamespace, want},
		"another mesh's domain":        {Proxy{Namespace: "shop", Domain: "shop.svc.corp.example"}, nil, WrongDomain, "want NAMESPACE.svc.cluster.local"},
		"of a gateway":                 {Proxy{Namespace: "shop", Domain: "shop.svc.corp.example", Gateway: true}, nil, "", ""},
		"a Pod's address":              {Proxy{Namespace: "shop", Addresses: at("10.1.0.1")}, nil, WrongNamespace, "that of Pod pods/a-1: objects of namespace pods"},
		"the same of its cluster":      {Proxy{Namespace: "shop", Addresses: at("10.1.0.1"), Cluster: "east"}, nil, WrongNamespace, want},
		"of another cluster":           {Proxy{Namespace: "shop", Addresses: at("10.1.0.1"), Cluster: "west"}, nil, "", ""},
		"its Pod":                      {Proxy{Namespace: "pods", Addresses: at("10.1.0.1")}, nil, "", ""},
		"the address of a node":        {Proxy{Namespace: "shop", Addresses: at("10.1.0.2")}, nil, "", ""},
		"a WorkloadEntry of another":   {Proxy{Namespace: "shop", Addresses: at("10.1.0.3")}, nil, "", ""},
		"an older Envoy":               {Proxy{Version: "envoy 1.39.4"}, nil, OldEnvoy, "it is Envoy 1.39.4, and the configuration is made for 1.40"},
		"a much older one":             {Proxy{Version: "envoy 0.9.9"}, nil, OldEnvoy, "want Envoy 1.40"},
		"the Envoy":                    {Proxy{Version: "envoy 1.40.0"}, nil, "", ""},
		"a newer one":                  {Proxy{Version: "envoy 2.0.0"}, nil, "", ""},
		"a program's gRPC":             {Proxy{Version: "gRPC Go 1.39.0", Proxyless: true, DNS: DNS{Capture: DNSOn}, Binds: true}, nil, "", ""},
		"no version":                   {Proxy{Version: "envoy "}, nil, "", ""},
		"a version that is none":       {Proxy{Version: "envoy a.b.c"}, nil, "", ""},
		"captures DNS":                 {Proxy{DNS: DNS{Capture: DNSOn, Auto: DNSOn}}, capturing, "", ""},
		"captures nothing":             {Proxy{DNS: DNS{Capture: DNSOn}, Binds: true}, nil, DNSCapture, "INTERCEPTION_MODE is NONE"},
		"a gateway captures":           {Proxy{DNS: DNS{Capture: DNSOn}, Gateway: true}, nil, DNSCapture, "at a gateway"},
		"addresses without capture":    {Proxy{DNS: DNS{Auto: DNSOn}}, nil, DNSCapture, "ISTIO_META_DNS_AUTO_ALLOCATE is true without"},
		"addresses against capture":    {Proxy{DNS: DNS{Auto: DNSOn, Capture: DNSOff}}, nil, DNSCapture, "ISTIO_META_DNS_AUTO_ALLOCATE is true without"},
		"MeshConfig captures":          {Proxy{}, capturing, DNSCapture, "defaultConfig of MeshConfig has ISTIO_META_DNS_CAPTURE=true"},
		"it does not want to":          {Proxy{DNS: DNS{Capture: DNSOff}}, capturing, "", ""},
		"MeshConfig does not":          {Proxy{}, map[string]string{"ISTIO_META_DNS_CAPTURE": "false"}, "", ""},
		"nothing is intercepted there": {Proxy{Binds: true}, capturing, "", ""},
		"at a gateway, by MeshConfig":  {Proxy{Gateway: true}, capturing, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := object("MeshConfig", "", "mesh", 1, &meshconfig.MeshConfig{DefaultConfig: &meshconfig.ProxyConfig{ProxyMetadata: test.defaults}})
			m := New(slices.Values([]Group{{Workloads: pods, Objects: []*Object{config}}}))
			test.proxy.Name = "p-1"
			notes := m.Notes(test.proxy)
			switch {
			case test.code == "" && len(notes) > 0:
				t.Errorf("got %+v, want nothing", notes)
			case test.code == "":
			case len(notes) != 1 || notes[0].Code != test.code || notes[0].Meta.Key() != "Proxy/"+test.proxy.Namespace+"/p-1" || !strings.Contains(notes[0].Message, test.message):
				t.Errorf("got %+v, want %s with %q", notes, test.code, test.message)
			}
		})
	}
}

func at(addresses ...string) (out []netip.Addr) {
	for _, a := range addresses {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// Where labels select, the proxies without labels are named: ten of them.
func TestNotesNameProxiesWithoutLabels(t *testing.T) {
	sidecar := object("Sidecar", "shop", "s", 1, &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "a"}}})
	var connected []Proxy
	for i := range 12 {
		connected = append(connected, Proxy{Namespace: "shop", Name: fmt.Sprintf("p-%02d", 11-i)})
	}
	notes := meshOf([]*Object{sidecar}).Notes(connected...)
	if len(notes) != 1 || notes[0].Code != NoLabels || len(notes[0].Proxies) != maxProxies || notes[0].Proxies[0] != "shop/p-00" ||
		!strings.Contains(notes[0].Message, "12 connected proxies") || !strings.Contains(notes[0].Message, ": shop/p-00, shop/p-01,") {
		t.Errorf("got %+v", notes)
	}
}

// A proxy that connects costs the examination of one proxy, among 2,000 as among 200. Of a mesh that has changed all are
// examined, and so is a proxy that is no longer new.
func TestNotesExamineTheProxyThatConnects(t *testing.T) {
	for _, n := range []int{200, 2000} {
		var connected []Proxy
		for i := range n {
			connected = append(connected, Proxy{Stream: int64(i + 1), Namespace: "shop", Name: fmt.Sprint("p", i), Domain: "away.svc.cluster.local", New: i == 7})
		}
		m := meshOf(nil, in("shop", "a.shop.test"))
		var judged *Judged
		step := func(what string, m *Mesh, want int) {
			t.Helper()
			var notes []Note
			if notes, judged = m.NotesAfter(judged, connected...); judged.examined != want {
				t.Errorf("%d proxies, %s: %d are examined, want %d", n, what, judged.examined, want)
			}
			if whole := m.Notes(connected...); fmt.Sprint(whole) != fmt.Sprint(notes) {
				t.Errorf("%d proxies, %s: notes are\n%v\nwant\n%v", n, what, notes, whole)
			}
		}
		step("at first", m, n)
		step("nothing changed", m, 0)
		connected = append(connected, Proxy{Stream: int64(n + 1), Namespace: "other", Name: "p", Version: "envoy 1.2.3"})
		step("one connects", m, 1)
		connected = connected[1:]
		step("one leaves", m, 0)
		connected[6].New = false
		step("one is no longer new", m, 1)
		connected[8].Withheld = map[string]string{"a": "reason"}
		step("one does not get a secret", m, 0)
		step("another mesh", meshOf(nil, in("shop", "b.shop.test")), n)
	}
}

// For any proxies the notes that are made of what is known are those that are made anew; they are about proxies, each is one
// line, says what to do, and their number is bounded by namespaces.
func FuzzNotesOfProxies(f *testing.F) {
	f.Add("shop", "away.svc.cluster.local", "envoy 1.39.0", "10.1.0.1", "app", uint16(0b1010101))
	f.Add("pods", "pods.svc.corp.example", "envoy 1.40.0", "::1", "", uint16(0xffff))
	f.Add("\x00\n", ".svc.", "envoy 99999999999999999999.1", "", "\n", uint16(7))
	pods := []*Workload{{Registry: "Kubernetes", Namespace: "pods", Name: "a-1", Addresses: []string{"10.1.0.1"}}}
	config := object("MeshConfig", "", "mesh", 1, &meshconfig.MeshConfig{
		DefaultConfig: &meshconfig.ProxyConfig{ProxyMetadata: map[string]string{"ISTIO_META_DNS_CAPTURE": "true"}},
	})
	m := New(slices.Values([]Group{{Workloads: pods, Services: []*Service{in("shop", "a.shop.test")}, Objects: []*Object{config}}}))
	f.Fuzz(func(t *testing.T, namespace, domain, version, address, label string, bits uint16) {
		is := func(bit int) bool { return bits>>bit&1 == 1 }
		w := Proxy{
			Stream: 1, Namespace: namespace, Name: label, Domain: domain, Version: version, Gateway: is(0), Proxyless: is(1), Binds: is(2), New: is(3),
			DNS: DNS{DNSSetting(bits >> 4 % 3), DNSSetting(bits >> 6 % 3)},
		}
		if ip, err := netip.ParseAddr(address); err == nil {
			w.Addresses = []netip.Addr{ip}
		}
		if label != "" {
			w.Labels = map[string]string{label: label}
		}
		other := w
		other.Stream, other.Name, other.New = 2, "b", is(8)
		connected := []Proxy{w, w}
		_, judged := m.NotesAfter(nil, connected...)
		for i := range 12 {
			more := other
			more.Stream, more.Name = int64(3+i), fmt.Sprint("c", i)
			connected = append(connected, more)
		}
		after, _ := m.NotesAfter(judged, append(connected, other)...)
		if anew := m.Notes(append(connected, other)...); fmt.Sprint(anew) != fmt.Sprint(after) {
			t.Errorf("notes are\n%s\nwant\n%s", codesOf(after), codesOf(anew))
		}
		if most := 5 * (maxProxies + 1); len(after) > most {
			t.Errorf("%d notes, want at most %d", len(after), most)
		}
		for _, n := range after {
			if k := n.Meta.Kind; k != "Proxy" && k != "Namespace" || strings.ContainsAny(n.Message, "\n\x00") || k == "Proxy" && !strings.Contains(n.Message, "want") {
				t.Errorf("%+v", n)
			}
		}
	})
}
