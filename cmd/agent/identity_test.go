package main

import (
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/node"
)

// A row of the registries' table each, and what goes before it.
func TestIdentify(t *testing.T) {
	pod := environment{"POD_NAME": "reviews-1", "POD_NAMESPACE": "shop", "INSTANCE_IP": "10.0.0.9"}
	bare := environment{"POD_NAME": "reviews-1", "POD_NAMESPACE": "shop"}
	host := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	for _, test := range []struct {
		name      string
		flags     string
		env       environment
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
			s := resolved(t, test.env, strings.Fields(test.flags)...)
			id, err := identify(node.Sidecar, s, test.env, test.addresses)
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

// resolved are the settings of some flags: "--ip", "10.0.0.1".
func resolved(t *testing.T, env environment, flags ...string) *settings {
	t.Helper()
	sources := setting.Sources{Env: env}
	for i := 0; i < len(flags); i += 2 {
		sources.Flags = append(sources.Flags, setting.Given{Name: strings.TrimPrefix(flags[i], "--"), Text: flags[i+1]})
	}
	s := &settings{}
	if faults := s.resolve(sources); len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

func TestDiscoveryIdentity(t *testing.T) {
	env := environment{"POD_NAMESPACE": "shop"}
	for _, test := range []struct {
		host  string
		env   environment
		flags []string
		want  string
	}{
		{"istio-pilot", env, nil, "spiffe://cluster.local/ns/shop/sa/istio-pilot-service-account"},
		{"istio-pilot.control", env, nil, "spiffe://cluster.local/ns/control/sa/istio-pilot-service-account"},
		{"istio-pilot.control.svc", env, nil, "spiffe://cluster.local/ns/istio-system/sa/istio-pilot-service-account"},
		{"istio-pilot.control.svc", environment{"ISTIO_NAMESPACE": "i"}, nil, "spiffe://cluster.local/ns/i/sa/istio-pilot-service-account"},
		{"istio-pilot.a", env, []string{"--trust-domain", "td"}, "spiffe://td/ns/a/sa/istio-pilot-service-account"},
		{"istio-pilot.a", env, []string{"--pilotIdentity", "spiffe://x/y"}, "spiffe://x/y"},
	} {
		if got := resolved(t, test.env, test.flags...).discoveryIdentity(test.host, test.env); got != test.want {
			t.Errorf("%s %v: got %s, want %s", test.host, test.flags, got, test.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	id := node.ID{Role: node.Sidecar, IP: "10.0.0.1", Name: "x"}
	got, err := describe(id, pod{labels: map[string]string{"app": "old", "version": "v1"}}, environment{
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
		t.Errorf("describe (-want +got):\n%s", diff)
	}
}

func TestDescribeNamesTheVariable(t *testing.T) {
	for name, value := range map[string]string{
		"ISTIO_METAJSON_LABELS":        "app=reviews",
		"ISTIO_META_INTERCEPTION_MODE": "none",
	} {
		_, err := describe(node.ID{IP: "10.0.0.1"}, pod{}, environment{name: value}, nil)
		if key := strings.TrimPrefix(name, metaPrefix); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: got error %v, want one that names it", name, value, err)
		}
	}
}

func TestMetadataIsBounded(t *testing.T) {
	env := environment{"ISTIO_META_BIG": strings.Repeat("x", metadataLimit), "ISTIO_META_SMALL": "x"}
	_, err := describe(node.ID{IP: "10.0.0.1"}, pod{}, env, nil)
	if err == nil || !strings.Contains(err.Error(), "the greatest is BIG with 524290") {
		t.Errorf("got %v, want an error that names BIG", err)
	}
}

func TestParseDownward(t *testing.T) {
	got, err := parseDownward("app=\"reviews\"\nnote=\"two\\nlines, \\\"quoted\\\"\"\n\nempty=\"\"\n")
	want := map[string]string{"app": "reviews", "note": "two\nlines, \"quoted\"", "empty": ""}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("parseDownward: %v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"a=\"b\"\napp", "\n=\"x\"", "\na=b"} {
		if _, err := parseDownward(text); err == nil || !strings.Contains(err.Error(), "line 2: is ") {
			t.Errorf("parseDownward(%q): got %v, want an error with the line", text, err)
		}
	}
}

func TestReadDownward(t *testing.T) {
	root := fstest.MapFS{
		"etc/istio/pod/labels": {Data: []byte("app=\"reviews\"\n")},
		"big":                  {Data: make([]byte, downwardLimit+1)},
		"bad":                  {Data: []byte("app\n")},
	}
	for _, test := range []struct {
		flags []string
		want  map[string]string
		fault string
	}{
		{nil, map[string]string{"app": "reviews"}, ""},
		{[]string{"--labelsFile", "/none"}, nil, "--labelsFile: open none: file does not exist"},
		{[]string{"--labelsFile", "/big"}, nil, "--labelsFile /big: has 262145 bytes, want at most 262144"},
		{[]string{"--labelsFile", "/bad"}, nil, `--labelsFile /bad: line 1: is "app", want name="value"`},
	} {
		s := resolved(t, nil, test.flags...)
		got, err := s.readDownward(root, "labelsFile", s.labelsFile)
		if cmp.Diff(test.want, got) != "" || (err == nil) != (test.fault == "") || err != nil && err.Error() != test.fault {
			t.Errorf("%v: got %v, %v; want %v, %s", test.flags, got, err, test.want, test.fault)
		}
	}
	s := resolved(t, nil)
	if got, err := s.readDownward(fstest.MapFS{}, "labelsFile", s.labelsFile); got != nil || err != nil {
		t.Errorf("the default file is missing: got %v, %v; want nothing", got, err)
	}
}
