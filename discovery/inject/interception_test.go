package inject

import "testing"

// The agent learns which inbound traffic is left out of the redirection by the injector's configuration, and by that alone.
func TestLeftOut(t *testing.T) {
	const include, exclude = "traffic.sidecar.istio.io/includeInboundPorts", "traffic.sidecar.istio.io/excludeInboundPorts"
	for name, test := range map[string]struct {
		w     annotations
		given map[string]string
		want  string
	}{
		"nothing":          {annotations{traffic: interception{mode: "REDIRECT", includeInboundPorts: "*"}}, nil, ""},
		"all":              {annotations{traffic: interception{mode: "TPROXY"}}, nil, `{"` + include + `":""}`},
		"some":             {annotations{traffic: interception{mode: "REDIRECT", includeInboundPorts: "80", excludeInboundPorts: "81,90-99"}}, nil, `{"` + exclude + `":"81,90-99","` + include + `":"80"}`},
		"by the Pod":       {annotations{traffic: interception{mode: "REDIRECT", includeInboundPorts: "80", excludeInboundPorts: "81"}}, map[string]string{include: "80", exclude: "81"}, ""},
		"one by the Pod":   {annotations{traffic: interception{mode: "REDIRECT", includeInboundPorts: "80", excludeInboundPorts: "81"}}, map[string]string{include: "80"}, `{"` + exclude + `":"81"}`},
		"no interception":  {annotations{traffic: interception{mode: "NONE", excludeInboundPorts: "81"}}, nil, ""},
		"another to a Pod": {annotations{traffic: interception{mode: "REDIRECT", includeInboundPorts: "*", excludeInboundPorts: "81"}}, map[string]string{"a": "b"}, `{"` + exclude + `":"81"}`},
	} {
		if got := test.w.configuredInterception(test.given); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
