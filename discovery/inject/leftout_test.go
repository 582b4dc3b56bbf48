package inject

import "testing"

// The agent learns which inbound traffic is left out of the redirection by the injector's configuration, and by that alone.
func TestLeftOut(t *testing.T) {
	const include, exclude = "traffic.sidecar.istio.io/includeInboundPorts", "traffic.sidecar.istio.io/excludeInboundPorts"
	for name, test := range map[string]struct {
		w     wishes
		given map[string]string
		want  string
	}{
		"nothing":          {wishes{mode: "REDIRECT", ports: "*"}, nil, ""},
		"all":              {wishes{mode: "TPROXY"}, nil, `{"` + include + `":""}`},
		"some":             {wishes{mode: "REDIRECT", ports: "80", skipPorts: "81,90-99"}, nil, `{"` + exclude + `":"81,90-99","` + include + `":"80"}`},
		"by the Pod":       {wishes{mode: "REDIRECT", ports: "80", skipPorts: "81"}, map[string]string{include: "80", exclude: "81"}, ""},
		"one by the Pod":   {wishes{mode: "REDIRECT", ports: "80", skipPorts: "81"}, map[string]string{include: "80"}, `{"` + exclude + `":"81"}`},
		"no interception":  {wishes{mode: "NONE", skipPorts: "81"}, nil, ""},
		"another to a Pod": {wishes{mode: "REDIRECT", ports: "*", skipPorts: "81"}, map[string]string{"a": "b"}, `{"` + exclude + `":"81"}`},
	} {
		if got := test.w.leftOut(test.given); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
