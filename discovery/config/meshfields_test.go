package config

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Each field of MeshConfig is in the table: what is not served is ignored for a reason that the table gives.
func TestEveryMeshConfigFieldHasALine(t *testing.T) {
	entries := SupportOf("MeshConfig")
	fields := (&meshconfig.MeshConfig{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := fields.Get(i).JSONName()
		if _, found := entryOf(entries[:len(entries)-1], name); found || branches["MeshConfig"].below[name] != nil {
			continue
		}
		t.Errorf("%s has no line", name)
	}
}
