package identity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/node"
)

func TestRedirected(t *testing.T) {
	type annotations map[string]any
	for name, test := range map[string]struct {
		role        node.Role
		mode        node.InterceptionMode
		annotations annotations
		want        string // which of 8080, 9090 and 15020
	}{
		"REDIRECT":            {node.Sidecar, node.Redirect, nil, "8080 9090"},
		"TPROXY":              {node.Sidecar, node.TProxy, nil, "8080 9090"},
		"NONE":                {node.Sidecar, node.None, nil, "nothing"},
		"it does not say":     {node.Sidecar, "", nil, "nothing"},
		"a gateway":           {node.Router, node.Redirect, nil, "nothing"},
		"all":                 {node.Sidecar, node.Redirect, annotations{includeInbound: "*"}, "8080 9090"},
		"none":                {node.Sidecar, node.Redirect, annotations{includeInbound: ""}, "nothing"},
		"some":                {node.Sidecar, node.Redirect, annotations{includeInbound: "8080, 7070"}, "8080"},
		"without one":         {node.Sidecar, node.Redirect, annotations{excludeInbound: "1, 9090"}, "8080"},
		"without a range":     {node.Sidecar, node.Redirect, annotations{excludeInbound: "9000-9100"}, "8080"},
		"without what is not": {node.Sidecar, node.Redirect, annotations{excludeInbound: "a,,"}, "8080 9090"},
		"some, without one":   {node.Sidecar, node.Redirect, annotations{includeInbound: "8080,9090", excludeInbound: "8080"}, "9090"},
		"of other interfaces": {node.Sidecar, node.Redirect, annotations{excludeInterfaces: "eth1"}, "nothing"},
		"no text":             {node.Sidecar, node.Redirect, annotations{excludeInbound: 9090.0}, "8080 9090"},
	} {
		m := node.Metadata{InterceptionMode: test.mode, Extra: map[string]any{"ANNOTATIONS": map[string]any(test.annotations)}}
		takes := Redirected(node.ID{Role: test.role}, m, 15020)
		var taken []string
		for _, port := range []uint16{8080, 9090, 15020} {
			if takes != nil && takes(port) {
				taken = append(taken, fmt.Sprint(port))
			}
		}
		got := strings.Join(taken, " ")
		if takes == nil {
			got = "nothing"
		}
		if got != test.want {
			t.Errorf("%s: Envoy is to take %q, want %q", name, got, test.want)
		}
	}
}
