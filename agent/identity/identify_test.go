package identity

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/node"
)

// A row of the registries' table each, and what goes before it.
func TestIdentify(t *testing.T) {
	pod := Environment{"POD_NAME": "reviews-1", "POD_NAMESPACE": "shop", "INSTANCE_IP": "10.0.0.9"}
	bare := Environment{"POD_NAME": "reviews-1", "POD_NAMESPACE": "shop"}
	host := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	for _, test := range []struct {
		name      string
		flags     string
		env       Environment
		addresses []netip.Addr
		want      string // a node ID, or the error after "!"
	}{
		{"Kubernetes", "--serviceregistry Kubernetes", pod, host, "sidecar~10.0.0.9~reviews-1.shop~shop.svc.cluster.local"},
		{"Kubernetes, the first private address", "", bare, host, "sidecar~10.0.0.1~reviews-1.shop~shop.svc.cluster.local"},
		{"Kubernetes, no private address", "", bare, host[:1], "!--ip: not set, and this host has no private address"},
		{"Kubernetes without a pod's name", "", nil, host, `!POD_NAME ""`},
		{"Consul", "--serviceregistry Consul", pod, host, "sidecar~10.0.0.9~10.0.0.9.service.consul~service.consul"},
		{"Consul, the first private address", "--serviceregistry Consul", nil, host, "sidecar~10.0.0.1~10.0.0.1.service.consul~service.consul"},
		{"Consul, no private address", "--serviceregistry Consul", nil, host[:1], "sidecar~127.0.0.1~127.0.0.1.service.consul~service.consul"},
		{"Eureka", "--serviceregistry Eureka", pod, host, "sidecar~10.0.0.9~10.0.0.9~"},
		{"CloudFoundry", "--serviceregistry CloudFoundry", nil, host, "sidecar~10.0.0.1~10.0.0.1~"},
		{"Config", "--serviceregistry Config", nil, nil, "sidecar~127.0.0.1~127.0.0.1~"},
		{"Mock", "--serviceregistry Mock", nil, host, "sidecar~10.0.0.1~10.0.0.1~"},
		{"Other", "--serviceregistry Other", nil, host, "sidecar~10.0.0.1~10.0.0.1~"},
		{"IPv6 alone", "--serviceregistry Other", nil, host[2:], "sidecar~fd00::1~fd00::1~"},
		{"flags win", "--ip 10.9.9.9 --id vm-1 --domain x.y", pod, host, "sidecar~10.9.9.9~vm-1~x.y"},
		{"an address that is none", "--serviceregistry Other --ip localhost", nil, nil, `!ip "localhost": want an IPv4 or IPv6 address`},
	} {
		t.Run(test.name, func(t *testing.T) {
			id, _, err := Identify(given(t, test.env, test.flags), test.env, test.addresses)
			if fault, ok := strings.CutPrefix(test.want, "!"); ok {
				if err == nil || !strings.Contains(err.Error(), fault) {
					t.Errorf("got %v, %v; want an error with %q", id, err, fault)
				}
				return
			}
			if err != nil || id.String() != test.want {
				t.Errorf("got %s, %v; want %s", id, err, test.want)
			}
		})
	}
}

// given is what a row's flags and its environment say, with the default registry.
func given(t *testing.T, env Environment, flags string) Given {
	t.Helper()
	g := Given{Role: node.Sidecar, Registry: Kubernetes, IP: env["INSTANCE_IP"]}
	places := map[string]*string{"--serviceregistry": &g.Registry, "--ip": &g.IP, "--id": &g.Name, "--domain": &g.Domain}
	for words := strings.Fields(flags); len(words) > 1; words = words[2:] {
		place := places[words[0]]
		if place == nil {
			t.Fatalf("no such flag: %s", words[0])
		}
		*place = words[1]
	}
	return g
}

func TestDiscovery(t *testing.T) {
	env := Environment{"POD_NAMESPACE": "shop"}
	for _, test := range []struct {
		host   string
		env    Environment
		domain string
		want   string
	}{
		{"istio-pilot", env, "cluster.local", "spiffe://cluster.local/ns/shop/sa/istio-pilot-service-account"},
		{"first", Environment{}, "cluster.local", "spiffe://cluster.local/ns/istio-system/sa/istio-pilot-service-account"},
		{"first", Environment{"ISTIO_NAMESPACE": "i"}, "cluster.local", "spiffe://cluster.local/ns/i/sa/istio-pilot-service-account"},
		{"istio-pilot.control", env, "cluster.local", "spiffe://cluster.local/ns/control/sa/istio-pilot-service-account"},
		{"istio-pilot.control.svc", env, "cluster.local", "spiffe://cluster.local/ns/istio-system/sa/istio-pilot-service-account"},
		{"istio-pilot.control.svc", Environment{"ISTIO_NAMESPACE": "i"}, "cluster.local", "spiffe://cluster.local/ns/i/sa/istio-pilot-service-account"},
		{"istio-pilot.a", env, "td", "spiffe://td/ns/a/sa/istio-pilot-service-account"},
	} {
		if got := Discovery(test.host, test.domain, test.env); got != test.want {
			t.Errorf("%s: got %s, want %s", test.host, got, test.want)
		}
	}
}

// Derived values are reported, and given ones are not.
func TestDerived(t *testing.T) {
	host := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	for _, test := range []struct {
		flags string
		env   Environment
		want  []Derived
	}{
		{"--serviceregistry Other", nil, []Derived{
			{"ip", "10.0.0.1", "the first private address of this host", ""},
			{"id", "10.0.0.1", "as Other names it", ""},
			{"domain", "", "as Other names it", ""},
		}},
		{"--ip 10.9.9.9 --id vm-1 --domain x.y", nil, nil},
		{"--ip 10.9.9.9", nil, []Derived{{"id", "", "as Kubernetes names it", ""}, {"domain", "", "as Kubernetes names it", ""}}}, // not enough for an ID
	} {
		_, got, _ := Identify(given(t, test.env, test.flags), test.env, host)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.flags, diff)
		}
	}
}

func TestDescribe(t *testing.T) {
	id := node.ID{Role: node.Sidecar, IP: "10.0.0.1", Name: "x"}
	got, err := Describe(id, Pod{Labels: map[string]string{"app": "old", "version": "v1"}}, Environment{
		"POD_NAMESPACE":              "shop",
		"POD_NAME":                   "reviews-1",
		"SERVICE_ACCOUNT":            "reviews",
		"ISTIO_META_HTTP_PROXY_PORT": "15007",
		"ISTIO_META_CLUSTER_ID":      "c1",
		"ISTIO_METAJSON_LABELS":      `{"app":"reviews"}`,
		"ISTIO_METAJSON_ANNOTATIONS": `{"note":"n"}`,
		"ISTIO_METAJSON_METRICS":     `{"METRICS_INCLUSIONS":{"a":1}}`,
		"PATH":                       "/bin",
	}, []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")})
	if err != nil {
		t.Fatal(err)
	}
	want := node.Metadata{
		Namespace: "shop", HTTPProxyPort: 15007, Labels: map[string]string{"app": "reviews", "version": "v1"}, InstanceIPs: []string{"10.0.0.1", "fd00::1"},
		Extra: map[string]any{
			"POD_NAME": "reviews-1", "SERVICE_ACCOUNT": "reviews", "CONFIG_NAMESPACE": "shop", "CLUSTER_ID": "c1", "ANNOTATIONS": map[string]any{"note": "n"}, "METRICS_INCLUSIONS": map[string]any{"a": 1.0},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Describe (-want +got):\n%s", diff)
	}
}

// Where nothing that runs depends on the identity, missing parts get stand-ins, and each says what it needs.
func TestStandIns(t *testing.T) {
	id, derived, err := Identify(Given{Role: node.Sidecar, Registry: Kubernetes, StandIn: true}, nil, nil)
	if err != nil || id.String() != "sidecar~127.0.0.1~127.0.0.1~" {
		t.Errorf("got %s, %v", id, err)
	}
	for i, want := range []string{"set --ip or INSTANCE_IP", "set all or --id", ""} {
		if got := derived[i].Needs; !strings.HasSuffix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s needs %q, want %q", derived[i].Setting, got, want)
		}
	}
	env := Environment{"POD_NAME": "web-1", "POD_NAMESPACE": "shop"}
	id, derived, err = Identify(Given{Role: node.Sidecar, Registry: Kubernetes, IP: "10.0.0.1", StandIn: true}, env, nil)
	if err != nil || id.String() != "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local" || derived[0].Needs != "" {
		t.Errorf("what can be computed is: got %s, %v, %v", id, derived, err)
	}
	if (Given{Registry: "Consul", StandIn: true}).AwaitsAddress() {
		t.Error("a start waits for an address that it does not need")
	}
}

// As in Istio, a proxy without another namespace is of the one in its domain.
// A name that ends with another namespace than the node's is noticed.
func TestStray(t *testing.T) {
	for _, test := range []struct {
		name, domain, namespace string
		want                    string // the namespace of the name; empty where nothing is strange
	}{
		{"web.shop", "shop.svc.cluster.local", "shop", ""},
		{"stray.shop", "default.svc.cluster.local", "default", "shop"},
		{"stray.shop", "default.svc.cluster.local", "shop", ""}, // by NAMESPACE
		{"web", "default.svc.cluster.local", "default", ""},
		{"10.0.0.9", "default.svc.cluster.local", "default", ""},
		{"web.example.com", "default.svc.cluster.local", "default", ""},
		{"web.shop", "service.consul", "default", ""},
		{"web.shop", "", "default", ""},
	} {
		said, stray := Stray(node.ID{Name: test.name, Domain: test.domain}, test.namespace)
		if stray != (test.want != "") || stray && said != test.want {
			t.Errorf("%s of %s in %s: %q, %v; want %q", test.name, test.domain, test.namespace, said, stray, test.want)
		}
	}
}

func TestNamespace(t *testing.T) {
	for _, test := range []struct {
		domain string
		env    Environment
		want   string
	}{
		{"shop.svc.cluster.local", nil, "shop"},
		{"shop.svc", nil, "shop"},
		{"shop.svc.cluster.local", Environment{"POD_NAMESPACE": "bank"}, "bank"},
		{"shop.svc.cluster.local", Environment{"ISTIO_META_NAMESPACE": "bank"}, "bank"},
		{"service.consul", nil, "default"},
		{"example.svcs.com", nil, "default"},
		{"svc.cluster.local", nil, "default"},
		{"shop", nil, "default"},
		{"", nil, "default"},
	} {
		got, err := Describe(node.ID{IP: "10.0.0.1", Domain: test.domain}, Pod{}, test.env, nil)
		if err != nil || got.Namespace != test.want || got.Extra["CONFIG_NAMESPACE"] != test.want {
			t.Errorf("%q, %v: got %q, %v, want %q", test.domain, test.env, got.Namespace, err, test.want)
		}
	}
}

func TestDescribeNamesTheVariable(t *testing.T) {
	for name, value := range map[string]string{
		"ISTIO_METAJSON_LABELS":         "app=reviews",
		"ISTIO_META_INTERCEPTION_MODE":  "none",
		"ISTIO_META_PILOTLIGHT_REPORTS": "failure",
	} {
		_, err := Describe(node.ID{IP: "10.0.0.1"}, Pod{}, Environment{name: value}, nil)
		if key := strings.TrimPrefix(name, MetaPrefix); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: got error %v, want one that names it", name, value, err)
		}
	}
}

func TestMetadataIsBounded(t *testing.T) {
	env := Environment{"ISTIO_META_BIG": strings.Repeat("x", metadataLimit), "ISTIO_META_SMALL": "x"}
	_, err := Describe(node.ID{IP: "10.0.0.1"}, Pod{}, env, nil)
	if err == nil || !strings.Contains(err.Error(), "the greatest is BIG with 524290") {
		t.Errorf("got %v, want an error that names BIG", err)
	}
}

func TestParseDownward(t *testing.T) {
	got, err := ParseDownward("app=\"reviews\"\nnote=\"two\\nlines, \\\"quoted\\\"\"\n\nempty=\"\"\n")
	want := map[string]string{"app": "reviews", "note": "two\nlines, \"quoted\"", "empty": ""}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("ParseDownward: %v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"a=\"b\"\napp", "\n=\"x\"", "\na=b"} {
		if _, err := ParseDownward(text); err == nil || !strings.Contains(err.Error(), "line 2: is ") {
			t.Errorf("ParseDownward(%q): got %v, want an error with the line", text, err)
		}
	}
}

// The agent uses the number of workers in PROXY_CONFIG; discovery receives all of it.
func TestProxyConfig(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
		said bool
	}{
		{"", 0, false},
		{`{"concurrency":3}`, 3, true},
		{"concurrency: 3\n", 3, true},
		{`{"concurrency":0}`, 8, true},
		{`{"statusPort":15020}`, 0, false},
	} {
		c, err := ReadProxyConfig(Environment{"PROXY_CONFIG": test.text})
		if err != nil {
			t.Fatal(err)
		}
		if got, said := c.Workers(8); got != test.want || said != test.said {
			t.Errorf("%s: %d workers, said %v; want %d, %v", test.text, got, said, test.want, test.said)
		}
	}
	env := Environment{"PROXY_CONFIG": `{"concurrency":2,"gatewayTopology":{"numTrustedProxies":1},"image":{"imageType":"debug"}}`}
	metadata, err := Describe(node.ID{IP: "10.0.0.1"}, Pod{}, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"concurrency": 2, "gatewayTopology": map[string]any{"numTrustedProxies": 1}, "image": map[string]any{"imageType": "debug"},
	}
	if diff := cmp.Diff(want, metadata.Extra["PROXY_CONFIG"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	c, _ := ReadProxyConfig(env)
	if keys, _ := c.Unread(); !slices.Equal(keys, []string{"image"}) {
		t.Errorf("not read: %q, want the one key that is not", keys)
	}
	env = Environment{"PROXY_CONFIG": "proxyMetadata: {ISTIO_META_NETWORK: east, ISTIO_META_CLUSTER_ID: c1, TZ: UTC}", "ISTIO_META_CLUSTER_ID": "own"}
	if metadata, err = Describe(node.ID{IP: "10.0.0.1"}, Pod{}, env, nil); err != nil {
		t.Fatal(err)
	}
	if got := metadata.Extra; got["NETWORK"] != "east" || got["CLUSTER_ID"] != "own" || got["TZ"] != nil {
		t.Errorf("of proxyMetadata the node has %v, want NETWORK of it, and CLUSTER_ID of the environment", got)
	}
	c, _ = ReadProxyConfig(env)
	if _, names := c.Unread(); !slices.Equal(names, []string{"TZ"}) {
		t.Errorf("not read: %q, want the name that is not", names)
	}
	for _, wrong := range []string{"concurrency: many", "concurrency: -1", "concurrency: 1.5", "text", "[1]"} {
		if _, err := Describe(node.ID{IP: "10.0.0.1"}, Pod{}, Environment{"PROXY_CONFIG": wrong}, nil); err == nil || !strings.Contains(err.Error(), "PROXY_CONFIG") {
			t.Errorf("%s: got error %v, want one that names PROXY_CONFIG", wrong, err)
		}
	}
}
