package model

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// A namespace uses its own private rules first, then those exported to it by name, then those for all.
func TestPrivateRulesComeFirst(t *testing.T) {
	rule := func(namespace, name string, age int, exportTo ...string) *Object {
		return object("VirtualService", namespace, name, age, &networking.VirtualService{
			Hosts: []string{"x.test"}, ExportTo: exportTo, Http: []*networking.HTTPRoute{{Name: name}},
		})
	}
	public, named, private := rule("a", "public", 1), rule("b", "named", 2, "a", "c"), rule("a", "private", 3, ".")
	m := meshOf([]*Object{public, named, private}, in("a", "x.test"))
	for namespace, want := range map[string]string{"a": "private", "c": "named", "d": "public"} {
		if got := m.Scope(namespace, nil).Rule(0, "x.test").Name; got != want {
			t.Errorf("%s follows %s, want %s", namespace, got, want)
		}
	}
	for _, n := range m.Notes() {
		if n.Code == Conflict && n.Meta.Name == "private" {
			t.Errorf("the private rule is used, and noted: %s", n.Message)
		}
	}
}

// A Sidecar imports the service of the namespace that it names, also if another one is older.
func TestSidecarsImportByNamespace(t *testing.T) {
	for entry, want := range map[string]string{"ns2/x.test": "ns2", "ns1/x.test": "ns1", "*/x.test": "ns1", "./x.test": ""} {
		m := meshOf([]*Object{object("Sidecar", "c", "s", 1, &networking.Sidecar{
			Egress: []*networking.IstioEgressListener{{Hosts: []string{entry}}},
		})}, in("ns1", "x.test"), in("ns2", "x.test"))
		got := ""
		if s := m.Scope("c", nil).Service("x.test"); s != nil {
			got = s.Namespace
		}
		if got != want {
			t.Errorf("%s imports that of %q, want %q", entry, got, want)
		}
	}
}
