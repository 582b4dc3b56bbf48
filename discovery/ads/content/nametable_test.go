package content

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

func TestNameTableIsIstiosMessage(t *testing.T) {
	encoded := encodeNames([]xds.Name{
		{Host: "*.a.com", Addresses: []string{"10.0.0.1", "fd00::1"}},
		{Host: "b.shop.svc.cluster.local", Addresses: []string{"10.0.0.2"}, Service: "b", Namespace: "shop"},
	})
	want := "*.a.com=10.0.0.1,fd00::1 External /; b.shop.svc.cluster.local=10.0.0.2 Kubernetes b/shop"
	if got := adstest.ReadNames(t, encoded); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := adstest.ReadNames(t, encodeNames(nil)); got != "" {
		t.Errorf("of no names: %s", got)
	}
}
