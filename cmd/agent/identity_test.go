package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/node"
)

func TestIdentify(t *testing.T) {
	pod := environment{"POD_NAME": "reviews-1", "POD_NAMESPACE": "shop", "INSTANCE_IP": "10.0.0.9"}
	host := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	for _, test := range []struct {
		name      string
		settings  settings
		env       environment
		addresses []netip.Addr
		want      string // a node ID, or the error after "!"
	}{
		{"Kubernetes", settings{serviceRegistry: "Kubernetes"}, pod, host, "sidecar~10.0.0.9~reviews-1.shop~shop.svc.cluster.local"},
		{"Consul", settings{serviceRegistry: "Consul"}, pod, host, "sidecar~10.0.0.9~10.0.0.9.service.consul~service.consul"},
		{"Eureka", settings{serviceRegistry: "Eureka"}, pod, host, "sidecar~10.0.0.9~10.0.0.9~"},
		{"CloudFoundry", settings{serviceRegistry: "CloudFoundry"}, nil, host, "sidecar~10.0.0.1~10.0.0.1~"},
		{"flags win", settings{serviceRegistry: "Kubernetes", ip: "10.9.9.9", id: "vm-1", domain: "x.y"}, pod, host, "sidecar~10.9.9.9~vm-1~x.y"},
		{"the first private address", settings{serviceRegistry: "Other"}, nil, host, "sidecar~10.0.0.1~10.0.0.1~"},
		{"IPv6 alone", settings{serviceRegistry: "Other"}, nil, host[2:], "sidecar~fd00::1~fd00::1~"},
		{"no private address", settings{serviceRegistry: "Other"}, nil, host[:1], "!--ip: not set, and this host has no private address"},
		{"Kubernetes without a pod's name", settings{serviceRegistry: "Kubernetes"}, nil, host, `!POD_NAME ""`},
		{"an address that is none", settings{serviceRegistry: "Other", ip: "localhost"}, nil, nil, `!ip "localhost": want an IPv4 or IPv6 address`},
	} {
		t.Run(test.name, func(t *testing.T) {
			id, err := identify(node.Sidecar, &test.settings, test.env, test.addresses)
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

func TestDescribe(t *testing.T) {
	id := node.ID{Role: node.Sidecar, IP: "10.0.0.1", Name: "x"}
	got, err := describe(id, environment{
		"POD_NAMESPACE":              "shop",
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
		Namespace: "shop", HTTPProxyPort: 15007, Labels: map[string]string{"app": "reviews"}, InstanceIPs: []string{"10.0.0.1", "fd00::1"},
		Extra: map[string]any{
			"CLUSTER_ID": "c1", "ANNOTATIONS": map[string]any{"note": "n"}, "METRICS_INCLUSIONS": map[string]any{"a": 1.0},
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
		_, err := describe(node.ID{IP: "10.0.0.1"}, environment{name: value}, nil)
		if key := strings.TrimPrefix(name, metaPrefix); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: got error %v, want one that names it", name, value, err)
		}
	}
}
