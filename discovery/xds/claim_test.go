package xds

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A proxy's Pod is named in its metadata, or in its ID before the namespace.
func TestClaim(t *testing.T) {
	addresses := func(all ...string) (out []netip.Addr) {
		for _, text := range all {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	for name, test := range map[string]struct {
		id       string
		metadata map[string]any
		account  string
		want     model.Claim
	}{
		"Istio's agent": {
			"sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local",
			map[string]any{"NAMESPACE": "shop", "CLUSTER_ID": "c1", "NETWORK": "n1"},
			"sa",
			model.Claim{Namespace: "shop", Name: "web-0", Cluster: "c1", Network: "n1", Account: "sa", Addresses: addresses("10.0.0.1")},
		},
		"this agent": {
			"sidecar~10.0.0.1~own~shop.svc.cluster.local",
			map[string]any{"POD_NAME": "web-0", "INSTANCE_IPS": "10.0.0.1,fd00::1,::ffff:10.0.0.1,x"},
			"",
			model.Claim{Namespace: "shop", Name: "web-0", Addresses: addresses("10.0.0.1", "fd00::1")},
		},
		"a VM": {
			"sidecar~10.0.0.1~vm7~shop.svc.cluster.local",
			map[string]any{"NAMESPACE": "shop"},
			"",
			model.Claim{Namespace: "shop", Addresses: addresses("10.0.0.1")},
		},
		"the name of another namespace": {
			"sidecar~10.0.0.1~web-0.other~shop.svc.cluster.local",
			map[string]any{"NAMESPACE": "shop"},
			"",
			model.Claim{Namespace: "shop", Addresses: addresses("10.0.0.1")},
		},
		"a name that is no text": {
			"router~~gw.shop~shop.svc.cluster.local", map[string]any{"POD_NAME": 7.0}, "", model.Claim{Namespace: "shop", Name: "gw"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ParseProxy(envoyNode(t, test.id, test.metadata))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Claim(test.account); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	p, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.1~x.a~a.svc.x", map[string]any{"INSTANCE_IPS": strings.Join(many, ",")}))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Claim("").Addresses); n != maxOwnAddresses {
		t.Errorf("a proxy of 1000 addresses is looked up by %d, want %d", n, maxOwnAddresses)
	}
}
