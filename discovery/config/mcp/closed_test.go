package mcp

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// A policy that a server sends with an error, or of which only the name can be read, is STRICT for what it may have named.
func TestBrokenPolicies(t *testing.T) {
	var k config.Kind
	for _, one := range config.Kinds() {
		if one.Name == "PeerAuthentication" {
			k = one
		}
	}
	strange := &security.PeerAuthentication{}
	strange.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01}) // field 127
	for name, got := range map[string]read{
		"a mode that is not known": readObject("istiod.test:15010", k, overMCP(t, "shop/a", &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: 9}})),
		"a newer field":            readObject("istiod.test:15010", k, overMCP(t, "shop/a", strange)),
		"another type":             readObject("istiod.test:15010", k, overMCP(t, "shop/a", &structpb.Struct{})),
	} {
		if got.key != "PeerAuthentication/shop/a" || len(got.group.Faults) == 0 || !got.group.Closed() ||
			got.group.Objects[0].Spec.(*security.PeerAuthentication).Mtls.Mode != security.PeerAuthentication_MutualTLS_STRICT {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}
