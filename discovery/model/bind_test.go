package model

import (
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// What a gateway of istio-ingress opens of the Gateways of several namespaces, which are in the order of their names
// without an age, as in a directory.
func TestForeignBinds(t *testing.T) {
	server := func(bind string, port uint32) *networking.Server {
		return &networking.Server{Bind: bind, Port: &networking.Port{Number: port, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"}}
	}
	gateway := func(namespace string, age time.Duration, servers ...*networking.Server) *Object {
		return &Object{Meta: Meta{Kind: "Gateway", Namespace: namespace, Name: "gw" + strings.NewReplacer(".", "", ":", "", "/", "").Replace(servers[0].Bind), Created: time.Time{}.Add(-age)}, Spec: &networking.Gateway{Servers: servers}}
	}
	own := gateway("istio-ingress", 0, server("", 80))
	for name, test := range map[string]struct {
		objects []*Object
		opened  string
		refused string // namespace of those that are not opened
	}{
		"a socket":                     {[]*Object{gateway("evil", 0, server("unix:///tmp/x", 0)), own}, "istio-ingress:", "evil"},
		"a socket of an older Gateway": {[]*Object{gateway("evil", time.Hour, server("unix:///tmp/x", 0)), own}, "istio-ingress:", "evil"},
		"its own socket":               {[]*Object{gateway("istio-ingress", 0, server("unix:///tmp/x", 0))}, "istio-ingress:unix:///tmp/x", ""},
		"its agent's directory":        {[]*Object{gateway("istio-ingress", 0, server("unix:///etc/istio/proxy/private-0/agent.sock", 0))}, "", "istio-ingress"},
		"loopback of its port":         {[]*Object{gateway("evil", time.Hour, server("127.0.0.1", 80)), own}, "istio-ingress:", "evil"},
		"an address of its port":       {[]*Object{gateway("evil", 0, server("10.9.9.9", 80)), own}, "istio-ingress:", "evil"},
		"every address":                {[]*Object{gateway("evil", 0, server("0.0.0.0", 80)), own}, "istio-ingress: evil:0.0.0.0", ""},
		"a port that nobody has":       {[]*Object{gateway("evil", 0, server("127.0.0.1", 81)), own}, "istio-ingress: evil:127.0.0.1", ""},
		"its own address":              {[]*Object{own, gateway("istio-ingress", -1, server("10.9.9.9", 80))}, "istio-ingress: istio-ingress:10.9.9.9", ""},
		"of another tenant":            {[]*Object{gateway("a", time.Hour, server("", 80)), gateway("evil", 0, server("10.9.9.9", 80))}, "a:", "evil"},
		"of another tenant, older":     {[]*Object{gateway("a", 0, server("", 80)), gateway("evil", time.Hour, server("10.9.9.9", 80))}, "evil:10.9.9.9 a:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{Objects: test.objects}}))
			binds := Binds{Namespace: "istio-ingress"}
			var opened, refused []string
			for _, g := range m.GatewaysAt("istio-ingress", nil) {
				for _, s := range g.Spec.Servers {
					if why, _ := binds.Refused(g.Meta, s); why == "" {
						opened = append(opened, g.Namespace+":"+s.Bind)
					}
				}
			}
			for _, n := range m.Notes(Proxy{Gateway: true, Namespace: "istio-ingress"}, Proxy{Gateway: true, Namespace: "istio-ingress"}) {
				if n.Code == ForeignBind {
					refused = append(refused, n.Meta.Namespace)
				}
			}
			if got := strings.Join(opened, " "); got != test.opened {
				t.Errorf("opens %s, want %s", got, test.opened)
			}
			if got := strings.Join(refused, " "); got != test.refused {
				t.Errorf("names %s, want %s", got, test.refused)
			}
		})
	}
}

// At a gateway, of rules of equal age those of its own namespace go first; an older rule goes before both.
func TestOwnRulesGoFirstAtGateways(t *testing.T) {
	rule := func(namespace string, age time.Duration) *Object {
		return &Object{
			Meta: Meta{Kind: "VirtualService", Namespace: namespace, Name: "v", Created: time.Time{}.Add(-age)},
			Spec: &networking.VirtualService{Hosts: []string{"shop.test"}, Gateways: []string{"istio-ingress/gw"}},
		}
	}
	gw := &Object{Meta: Meta{Kind: "Gateway", Namespace: "istio-ingress", Name: "gw"}, Spec: &networking.Gateway{}}
	for want, objects := range map[string][]*Object{
		"istio-ingress evil": {rule("evil", 0), rule("istio-ingress", 0), gw},
		"evil istio-ingress": {rule("evil", time.Hour), rule("istio-ingress", 0), gw},
		"a evil":             {rule("evil", 0), rule("a", 0), gw},
	} {
		m := New(slices.Values([]Group{{Objects: objects}}))
		var got []string
		for _, v := range m.GatewayRules(m.gateways[0], "istio-ingress") {
			got = append(got, v.Namespace)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the order is %s, want %s", got, want)
		}
	}
}
