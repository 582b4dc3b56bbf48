package binding

import "testing"

func TestProtocols(t *testing.T) {
	for _, tt := range []struct {
		offered []string
		agents  bool
		mesh    string
	}{
		{nil, false, ""},
		{[]string{"h2"}, false, ""},
		{[]string{"h2", "http/1.1"}, false, ""},
		{[]string{"h2", HTTP2}, true, ""},
		{[]string{HTTP1, "http/1.1"}, true, ""},
		{[]string{"pilotlight"}, false, ""},
		{[]string{"istio"}, false, "istio"},
		{[]string{"h2", "istio"}, false, "istio"},
		{[]string{"istio-http/1.1", "istio", "http/1.1"}, false, "istio-http/1.1"},
		{[]string{"istio-peer-exchange"}, false, "istio-peer-exchange"},
		{[]string{"istio-h2", HTTP2}, true, "istio-h2"},
	} {
		if agents, mesh := Agents(tt.offered), Mesh(tt.offered); agents != tt.agents || mesh != tt.mesh {
			t.Errorf("%q: agents %t, mesh %q, want %t and %q", tt.offered, agents, mesh, tt.agents, tt.mesh)
		}
	}
}
