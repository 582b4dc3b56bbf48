package identity

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/node"
)

func TestLikeIstio(t *testing.T) {
	s := Settings{Registry: "Kubernetes", TrustDomain: "mesh.test", StatusPort: 15020, AdminPort: 15000, PrometheusPort: 15090}
	id := node.ID{Role: node.Sidecar, IP: "10.0.0.1", Name: "reviews-v1-6d4b75cb6d-hlmzt.shop"}
	env := Environment{"POD_NAME": "reviews-v1-6d4b75cb6d-hlmzt"}
	m := node.Metadata{Labels: map[string]string{"pod-template-hash": "6d4b75cb6d"}, Extra: map[string]any{
		"CLUSTER_ID": "c1", "PROXY_CONFIG": map[string]any{"statusPort": 1, "gatewayTopology": "x"}, "ENVOY_STATUS_PORT": "15021",
	}}
	want := map[string]any{
		"CLUSTER_ID": "c1", "ISTIO_VERSION": istioVersion, "MESH_ID": "mesh.test", "NAME": "reviews-v1-6d4b75cb6d-hlmzt",
		"WORKLOAD_NAME": "reviews-v1", "ENVOY_PROMETHEUS_PORT": 15090, "ENVOY_STATUS_PORT": "15021",
		"PROXY_CONFIG": map[string]any{"statusPort": 15020, "proxyAdminPort": 15000, "gatewayTopology": "x"},
	}
	before := maps.Clone(m.Extra)
	got := LikeIstio(m, id, env, s)
	if diff := cmp.Diff(before, m.Extra); diff != "" {
		t.Errorf("what it was given has changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got.Extra); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.AgentSDS != node.SDSFiles {
		t.Errorf("SDS with a bootstrap of ours: %q", got.AgentSDS)
	}
	own := Settings{OwnBootstrap: true}
	if got := LikeIstio(node.Metadata{Extra: map[string]any{}}, id, env, own); got.AgentSDS != node.SDSNone {
		t.Errorf("SDS with a bootstrap of one's own: %q", got.AgentSDS)
	}
	if got := LikeIstio(node.Metadata{AgentSDS: node.SDSFiles, Extra: map[string]any{}}, id, env, own); got.AgentSDS != node.SDSFiles {
		t.Errorf("SDS as the environment says: %q", got.AgentSDS)
	}
	for said, want := range map[node.Reports]node.Reports{"": node.ReportRequests, node.ReportFailures: node.ReportFailures, node.ReportNothing: node.ReportNothing} {
		if got := LikeIstio(node.Metadata{Reports: said}, id, env, s); got.Reports != want {
			t.Errorf("reports %q: %q", said, got.Reports)
		}
	}
	if got := LikeIstio(node.Metadata{}, id, env, own); got.Reports != node.ReportNothing {
		t.Errorf("reports with a bootstrap of one's own: %q", got.Reports)
	}
	for said, want := range map[string]any{"true": "true", "false": nil} {
		if got := LikeIstio(node.Metadata{Extra: map[string]any{"DNS_CAPTURE": said}}, id, env, s); got.Extra["DNS_FILTER"] != want {
			t.Errorf("DNS_CAPTURE %s: %+v", said, got)
		}
	}
	if got := LikeIstio(node.Metadata{Extra: map[string]any{}}, id, Environment{}, s); got.Extra["NAME"] != id.Name {
		t.Errorf("without a pod's name: %+v", got)
	}
}

func TestWorkloadName(t *testing.T) {
	for _, test := range []struct {
		pod    string
		labels map[string]string
		want   string
	}{
		{"reviews-v1-6d4b75cb6d-hlmzt", map[string]string{"pod-template-hash": "6d4b75cb6d"}, "reviews-v1"},
		{"reviews-v1-6d4b75cb6d-hlmzt", nil, "reviews-v1-6d4b75cb6d-hlmzt"},
		{"db-0", map[string]string{"statefulset.kubernetes.io/pod-name": "db-0"}, "db"},
		{"db-0", nil, "db-0"},
		{"agent-x7k2p", nil, "agent-x7k2p"},
		{"", nil, ""},
	} {
		if got := workloadName(test.pod, test.labels); got != test.want {
			t.Errorf("%s %v: %q, want %q", test.pod, test.labels, got, test.want)
		}
	}
}
