package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestWorkloadOf(t *testing.T) {
	pod := running("a", "u1", "10.0.0.1", "v1")
	want := func(change func(*model.Workload)) []*model.Workload {
		w := &model.Workload{
			Registry: "Kubernetes", Cluster: "c1", Namespace: "shop", Name: "a", Addresses: []string{"10.0.0.1"},
			Labels: map[string]string{"app": "web", "version": "v1"}, ServiceAccount: "web-account",
			Locality: model.Locality{Region: "r1", Zone: "z1", SubZone: "s1"}, Health: model.HealthHealthy,
		}
		change(w)
		return []*model.Workload{w}
	}
	for name, test := range map[string]struct {
		from, to string
		want     []*model.Workload
	}{
		"ready":     {"", "", want(func(*model.Workload) {})},
		"not ready": {`"True"`, `"False"`, want(func(w *model.Workload) { w.Health = model.HealthUnready })},
		"it ends": {
			"uid: u1", "uid: u1, deletionTimestamp: 2026-01-31T12:00:00Z", want(func(w *model.Workload) { w.Health = model.HealthTerminating }),
		},
		"it has ended":    {"phase: Running", "phase: Succeeded", nil},
		"it has failed":   {"phase: Running", "phase: Failed", nil},
		"no address yet":  {"podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]", "startTime: 2026-01-31T12:00:00Z", nil},
		"one address":     {"podIPs: [{ip: 10.0.0.1}]", "podIPs: []", want(func(*model.Workload) {})},
		"both families":   {"{ip: 10.0.0.1}", "{ip: 10.0.0.1}, {ip: FD00::1}", want(func(w *model.Workload) { w.Addresses = []string{"10.0.0.1", "fd00::1"} })},
		"on its node":     {"nodeName: n1", "hostNetwork: true, nodeName: n1", want(func(w *model.Workload) { w.OnNode = true })},
		"no account":      {"serviceAccountName: web-account, ", "", want(func(w *model.Workload) { w.ServiceAccount = "default" })},
		"an unknown node": {"nodeName: n1", "nodeName: n2", want(func(w *model.Workload) { w.Locality = model.Locality{} })},
		"a locality label": {"labels: {", "labels: {istio-locality: r2.z2, ", want(func(w *model.Workload) {
			w.Locality, w.Labels = model.Locality{Region: "r2", Zone: "z2"}, map[string]string{"app": "web", "version": "v1", "istio-locality": "r2.z2"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().put(t, strings.Replace(pod, test.from, test.to, 1), n1)
			w.take()
			if diff := cmp.Diff(test.want, w.groups["Pod/shop/a"].Workloads); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// If the locality of a node changes, that of its pods does too; without the node they have no locality.
func TestNodesMove(t *testing.T) {
	w := newWorld().put(t, n1, running("a", "u1", "10.0.0.1", "v1"))
	for _, test := range []struct{ node, want string }{
		{n1, "r1/z1/s1"},
		{strings.Replace(n1, "zone: z1", "zone: z2", 1), "r1/z2/s1"},
		{"kind: Node\nmetadata: {name: n1, labels: {failure-domain.beta.kubernetes.io/region: r0, failure-domain.beta.kubernetes.io/zone: z0}}", "r0/z0"},
		{"", ""},
	} {
		if test.node == "" {
			w.Delete(Key{Node, "", "n1"})
		} else {
			w.put(t, test.node)
		}
		w.take()
		if got := w.groups["Pod/shop/a"].Workloads[0].Locality.String(); got != test.want {
			t.Errorf("the locality is %s, want %s", got, test.want)
		}
	}
}
