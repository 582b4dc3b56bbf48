package model

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// A delegate is visible by its exportTo, else by MeshConfig's default for VirtualServices.
func TestDelegatesAreSeenByDefaultAsMeshConfigSays(t *testing.T) {
	root := object("VirtualService", "a", "root", 1, &networking.VirtualService{
		Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{{Delegate: &networking.Delegate{Name: "child", Namespace: "b"}}},
	})
	for name, test := range map[string]struct {
		byDefault, exportTo []string
		want                int
	}{
		"everywhere":        {nil, nil, 1},
		"at home":           {[]string{"."}, nil, 0},
		"at home but named": {[]string{"."}, []string{"a"}, 1},
		"for others":        {nil, []string{"c"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			child := object("VirtualService", "b", "child", 1, &networking.VirtualService{
				ExportTo: test.exportTo, Http: []*networking.HTTPRoute{{Name: "child"}},
			})
			mesh := object("MeshConfig", "", "mesh", 1, &meshconfig.MeshConfig{
				DefaultVirtualServiceExportTo: test.byDefault,
			})
			root := object("VirtualService", "a", "root", 1, root.Spec)
			root.Spec.(*networking.VirtualService).ExportTo = []string{"*"}
			m := meshOf([]*Object{root, child, mesh}, in("a", "x.test"))
			if got := len(m.Scope("a", nil).Rule(0, "x.test").Spec.Http); got != test.want {
				t.Errorf("the root has %d routes, want %d", got, test.want)
			}
		})
	}
}
