package crd_test

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/crd"
)

// Sound asks discovery and the API server: what either refuses is an error that says which.
func TestSound(t *testing.T) {
	object := func(spec string) []byte {
		return []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: app}\nspec: " + spec)
	}
	const rest = "location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.0.0.1}]}"
	for _, test := range []struct{ spec, want string }{
		{"{hosts: [app.test], ports: [{number: 80, name: http, protocol: HTTP}], " + rest, ""},
		{"{hosts: [app.test], ports: [{number: 0, name: http, protocol: HTTP}], " + rest, "discovery would not take this"},
		{"{hosts: [app.test], ports: [{number: '80', name: http, protocol: HTTP}], " + rest, "would not take this"},
	} {
		err := crd.Sound(object(test.spec))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.spec, err, test.want)
		}
	}
}
