package kubernetes

import (
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestSettings(t *testing.T) {
	var warned []string
	s := Settings{Cluster: "c1", Namespace: "istio-system", Name: "istio", warn: func(p config.Problem) { warned = append(warned, p.String()) }}
	configMap := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u1", ResourceVersion: "7"}, Data: data}
	}
	good := map[string]string{"mesh": "rootNamespace: root\n", "meshNetworks": "networks: {}\n"}
	groupsOf := func(e kube.Event) map[string]model.Group { return s.groupsOf(kube.Only[*corev1.ConfigMap](e)) }
	groups := groupsOf(kube.Event{List: true, All: []any{configMap(good)}})
	if c := groups["MeshConfig"].Objects[0]; c.Spec.(*meshconfig.MeshConfig).RootNamespace != "root" || c.Origin.String() != "cluster c1, uid u1, version 7" {
		t.Errorf("MeshConfig is %v, from %s", c.Spec, c.Origin)
	}
	if n := groups["MeshNetworks"]; len(n.Objects) != 1 || len(n.Faults) != 0 {
		t.Errorf("MeshNetworks is %+v", n)
	}
	if groupsOf(kube.Event{Put: configMap(map[string]string{"mesh": "defaultConfig: {statNameLength: 9, drainDuration: 9s}"})}); len(warned) != 1 ||
		!strings.Contains(warned[0], "MeshConfig.defaultConfig.statNameLength is not supported, ignored") {
		t.Errorf("the warnings are %q", warned)
	}
	if g := groupsOf(kube.Event{Put: configMap(map[string]string{"mesh": "{}"})}); len(g["MeshConfig"].Objects) != 1 || !g["MeshNetworks"].Empty() {
		t.Errorf("with the defaults and without networks there is %+v", g)
	}
	for what, test := range map[string]struct {
		event kube.Event
		kind  string
		fault string
	}{
		"a typing error":       {kube.Event{Put: configMap(map[string]string{"mesh": "a: 1\nrootNamespace: [x]\n"})}, "MeshConfig", "data.mesh, line "},
		"no ConfigMap":         {kube.Event{List: true}, "MeshConfig", "ConfigMap istio-system/istio is not there"},
		"one that was deleted": {kube.Event{Gone: configMap(good)}, "MeshConfig", "ConfigMap istio-system/istio is not there"},
		"a mistyped key":       {kube.Event{Put: configMap(map[string]string{"mehs": "{}"})}, "MeshConfig", "data.mesh is not there, want a MeshConfig"},
		"nothing":              {kube.Event{Put: configMap(map[string]string{"mesh": "# soon\n"})}, "MeshConfig", "is empty, want a MeshConfig"},
		"of the networks":      {kube.Event{Put: configMap(map[string]string{"meshNetworks": "networks: 7"})}, "MeshNetworks", "data.meshNetworks, line 1: "},
	} {
		g := groupsOf(test.event)[test.kind]
		if !g.Malformed() || !strings.Contains(strings.Join(g.Faults, "\n"), test.fault) {
			t.Errorf("%s: %+v, want the fault %s", what, g, test.fault)
		}
	}
}
