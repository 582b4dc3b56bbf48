package xds

import (
	"maps"
	"testing"

	mcpv1 "istio.io/api/mcp/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A dry run of a policy is one at another control plane too: enforced there, an ALLOW would let in whom no other one does. To end it is a change of the object.
func TestDryRunsAreSentAsSuch(t *testing.T) {
	versions := map[string]bool{}
	for _, dry := range []bool{true, false} {
		o := &model.Object{
			Meta: model.Meta{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "a", DryRun: dry},
			Spec: &security.AuthorizationPolicy{Rules: []*security.Rule{{}}},
		}
		var r mcpv1.Resource
		if err := EncodeObject(o).UnmarshalTo(&r); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		if dry {
			want["istio.io/dry-run"] = "true"
		}
		if !maps.Equal(r.Metadata.Annotations, want) {
			t.Errorf("a dry run is %t, and its annotations are %v", dry, r.Metadata.Annotations)
		}
		versions[r.Metadata.Version] = true
	}
	if len(versions) != 2 {
		t.Errorf("both have the version %v", versions)
	}
}
