package xds

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

const frontGateway = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: front, namespace: shop}
spec:
  hosts: ["*"]
  gateways: [front]
  http: [{match: [{port: 80}], directResponse: {status: 204}}]
`

// A gateway listens at the port to which the Service before it leads, as Istio's does: clients dial 80 of the Service, and
// the program behind it has 8080. Before, it listened at the Gateway's number only, where no client arrived.
func TestGatewayPorts(t *testing.T) {
	front := func(change func(*model.Service)) *model.Service {
		s := &model.Service{
			Right: model.RightFull, Registry: "Kubernetes", Host: "gw.edge.svc.cluster.local", Namespace: "edge", Name: "gw", Selector: map[string]string{"app": "gateway"},
			Ports: []model.Port{{Name: "http", Number: 80, Target: 8080, Protocol: model.HTTP}, {Name: "tls", Number: 443, Target: 8443, Protocol: model.TLS}},
		}
		change(s)
		return s
	}
	for name, test := range map[string]struct {
		services     []*model.Service
		unprivileged bool
		listeners    []string
	}{
		"no Service":                  {nil, false, []string{"0.0.0.0_443", "0.0.0.0_80"}},
		"no Service, no low ports":    {nil, true, nil},
		"80 to 8080":                  {[]*model.Service{front(func(*model.Service) {})}, true, []string{"0.0.0.0_8080", "0.0.0.0_8443"}},
		"a Service of another":        {[]*model.Service{front(func(s *model.Service) { s.Selector = map[string]string{"app": "web"} })}, false, []string{"0.0.0.0_443", "0.0.0.0_80"}},
		"a Service of another team":   {[]*model.Service{front(func(s *model.Service) { s.Namespace = "shop" })}, false, []string{"0.0.0.0_443", "0.0.0.0_80"}},
		"a Service without selector":  {[]*model.Service{front(func(s *model.Service) { s.Selector = nil })}, false, []string{"0.0.0.0_443", "0.0.0.0_80"}},
		"a ServiceEntry of that name": {[]*model.Service{front(func(s *model.Service) { s.Registry = "" })}, false, []string{"0.0.0.0_443", "0.0.0.0_80"}},
		"one of two ports":            {[]*model.Service{front(func(s *model.Service) { s.Ports = s.Ports[:1] })}, false, []string{"0.0.0.0_443", "0.0.0.0_8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, problems := config.Decode("front.yaml", []byte(frontGateway))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			m := model.New(slices.Values([]model.Group{{Objects: objects}, {Services: test.services}}))
			p := Proxy{
				ID:       node.ID{Role: node.Router, IP: "10.0.0.1", Name: "gw-1.edge", Domain: "edge.svc.cluster.local"},
				Metadata: node.Metadata{Namespace: "edge", Labels: map[string]string{"app": "gateway", "istio": "gw"}, Extra: map[string]any{}},
			}
			if test.unprivileged {
				p.Metadata.Extra["UNPRIVILEGED_POD"] = "true"
			}
			view := ViewOf(p)
			view.Outbound = view.Outbound.In(m)
			r := Build(m, view)
			var got []string
			for _, l := range r.Listeners {
				got = append(got, l.Name)
				if port := l.GetAddress().GetSocketAddress().GetPortValue(); l.Name != fmt.Sprintf("0.0.0.0_%d", port) {
					t.Errorf("listener %s is at port %d", l.Name, port)
				}
			}
			if slices.Sort(got); !slices.Equal(got, test.listeners) {
				t.Errorf("the listeners are %q, want %q", got, test.listeners)
			}
			if routes := len(r.Routes); len(test.listeners) > 0 && (routes != 1 || len(r.Routes[0].VirtualHosts[0].Routes) != 1 || r.Routes[0].VirtualHosts[0].Routes[0].GetDirectResponse() == nil) {
				t.Errorf("the rule of port 80 has no route: %v", r.Routes)
			}
			low := 0
			for _, n := range m.Notes(view.Proxy()) {
				if n.Code == model.PrivilegedPort {
					low++
				}
			}
			if want := 2; (low == want) != (name == "no Service, no low ports") || low != 0 && low != want {
				t.Errorf("%d ports are noted that the proxy cannot open", low)
			}
			validate(t, r)
		})
	}
}
