package xds

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A cluster that dials the address of the client speaks mutual TLS if all endpoints of the service take it, ready or not.
func TestMutualTLSToTheAddressOfTheClient(t *testing.T) {
	taking := func(address string) model.Endpoint {
		return model.Endpoint{Address: address, ServiceAccount: "db", Labels: map[string]string{"app": "db", "security.istio.io/tlsMode": "istio"}}
	}
	bare := model.Endpoint{Address: "10.0.0.4", Labels: map[string]string{"app": "db"}}
	away := taking("10.0.0.3")
	away.Health = model.HealthUnhealthy
	bareAway := bare
	bareAway.Health = model.HealthUnhealthy
	mode := func(m security.PeerAuthentication_MutualTLS_Mode) *security.PeerAuthentication_MutualTLS {
		return &security.PeerAuthentication_MutualTLS{Mode: m}
	}
	strict := &security.PeerAuthentication{Mtls: mode(security.PeerAuthentication_MutualTLS_STRICT)}
	disabled := &security.PeerAuthentication{Mtls: mode(security.PeerAuthentication_MutualTLS_DISABLE)}
	onePort := &security.PeerAuthentication{
		Selector:      &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "db"}},
		PortLevelMtls: map[uint32]*security.PeerAuthentication_MutualTLS{5432: mode(security.PeerAuthentication_MutualTLS_DISABLE)},
	}
	passthrough := &networking.DestinationRule{Host: fqdn("db"), TrafficPolicy: &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
		LbPolicy: &networking.LoadBalancerSettings_Simple{Simple: networking.LoadBalancerSettings_PASSTHROUGH},
	}}}
	tls := func(m networking.ClientTLSSettings_TLSmode) *networking.DestinationRule {
		return &networking.DestinationRule{Host: fqdn("db"), TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: m}}}
	}
	headless := func(s *model.Service) { s.Headless, s.Resolution = true, model.ResolutionNone }
	none := func(s *model.Service) { s.Resolution = model.ResolutionNone }
	outside := func(s *model.Service) { headless(s); s.External = true }
	certified := map[string]any{"NAMESPACE": "default", "PILOTLIGHT_SDS": "files", "PILOTLIGHT_CERTIFICATE": "true"}
	for name, test := range map[string]struct {
		kind      func(*model.Service)
		endpoints []model.Endpoint
		further   []any
		metadata  map[string]any
		want      bool
	}{
		"all take it":                   {headless, []model.Endpoint{taking("10.0.0.1"), taking("10.0.0.2")}, nil, certified, true},
		"one does not":                  {headless, []model.Endpoint{taking("10.0.0.1"), bare}, nil, certified, false},
		"none does":                     {headless, []model.Endpoint{bare}, []any{strict}, certified, false},
		"one that is not ready does":    {headless, []model.Endpoint{taking("10.0.0.1"), away}, nil, certified, true},
		"only those that are not ready": {headless, []model.Endpoint{away}, nil, certified, true},
		"one that is not ready is bare": {headless, []model.Endpoint{taking("10.0.0.1"), bareAway}, nil, certified, false},
		"without a certificate":         {headless, []model.Endpoint{taking("10.0.0.1")}, nil, map[string]any{"NAMESPACE": "default"}, false},
		"refused by policy":             {headless, []model.Endpoint{taking("10.0.0.1")}, []any{disabled}, certified, false},
		"refused at the port":           {headless, []model.Endpoint{taking("10.0.0.1")}, []any{onePort}, certified, false},
		"no endpoint":                   {headless, nil, nil, certified, false},
		"no endpoint under STRICT":      {headless, nil, []any{strict}, certified, true},
		"NONE under STRICT":             {none, nil, []any{strict}, certified, false},
		"NONE with endpoints":           {none, []model.Endpoint{taking("10.0.0.1")}, nil, certified, true},
		"outside":                       {outside, []model.Endpoint{taking("10.0.0.1")}, []any{strict}, certified, false},
		"outside, no endpoint":          {outside, nil, []any{strict}, certified, false},
		"PASSTHROUGH":                   {func(*model.Service) {}, []model.Endpoint{taking("10.0.0.1")}, []any{passthrough}, certified, true},
		"PASSTHROUGH, one is bare":      {func(*model.Service) {}, []model.Endpoint{taking("10.0.0.1"), bare}, []any{passthrough}, certified, false},
		"PASSTHROUGH, none, STRICT":     {func(*model.Service) {}, nil, []any{passthrough, strict}, certified, true},
		"mode DISABLE":                  {headless, []model.Endpoint{taking("10.0.0.1")}, []any{tls(networking.ClientTLSSettings_DISABLE)}, certified, false},
		"mode ISTIO_MUTUAL":             {headless, []model.Endpoint{bare}, []any{tls(networking.ClientTLSSettings_ISTIO_MUTUAL)}, certified, true},
	} {
		db := service(fqdn("db"), model.Port{Name: "tcp", Number: 5432, Protocol: model.TCP}, test.endpoints...)
		test.kind(db)
		proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.9~app.default~"+clusterDomain, test.metadata))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range Build(mesh(append(test.further, db)...), ViewOf(proxy)).Clusters {
			if c.Name == outboundName(5432, "", fqdn("db")) && (c.TransportSocket != nil) != test.want || len(c.TransportSocketMatches) > 0 {
				t.Errorf("%s: %s has the socket %v, %v, mutual TLS is wanted: %t", name, c.Name, c.TransportSocket, c.TransportSocketMatches, test.want)
			}
		}
	}
}

// While a headless service has no endpoint, the last ones decide, and before the first one its namespace: whether the mesh is made anew or
// by a small change.
func TestTheLastEndpointsOfAHeadlessServiceDecide(t *testing.T) {
	labels := map[string]string{"app": "db", "security.istio.io/tlsMode": "istio"}
	takes, bare := model.Endpoint{Address: "10.0.0.1", ServiceAccount: "db", Labels: labels}, model.Endpoint{Address: "10.0.0.2", Labels: map[string]string{"app": "db"}}
	mode := func(m security.PeerAuthentication_MutualTLS_Mode) *security.PeerAuthentication {
		return &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: m}}
	}
	strict, disabled := mode(security.PeerAuthentication_MutualTLS_STRICT), mode(security.PeerAuthentication_MutualTLS_DISABLE)
	view := Outbound{Namespace: "default", Identity: Identity{AgentSDS: true, Certified: true}}
	db := func(endpoints ...model.Endpoint) *model.Service {
		s := service(fqdn("db"), model.Port{Name: "tcp", Number: 5432, Protocol: model.TCP}, endpoints...)
		s.Headless, s.Resolution = true, model.ResolutionNone
		return s
	}
	all := func(objects []any, s *model.Service) []model.Group {
		groups := []model.Group{{Services: []*model.Service{s}}}
		for i, spec := range objects {
			groups = append(groups, model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: "PeerAuthentication", Namespace: "default", Name: string(rune('a' + i))}, Spec: spec}}})
		}
		return groups
	}
	for name, test := range map[string]struct {
		steps  [][]model.Endpoint
		policy []any
		want   bool
	}{
		"all took it":               {[][]model.Endpoint{{takes}, {}}, nil, true},
		"for long":                  {[][]model.Endpoint{{takes}, {}, {}, {}}, nil, true},
		"none did":                  {[][]model.Endpoint{{bare}, {}}, []any{strict}, false},
		"some did":                  {[][]model.Endpoint{{takes, bare}, {}}, nil, false},
		"the last ones did not":     {[][]model.Endpoint{{takes}, {}, {bare}, {}}, nil, false},
		"the last ones did":         {[][]model.Endpoint{{bare}, {}, {takes}, {}}, nil, true},
		"they are back, and do not": {[][]model.Endpoint{{takes}, {}, {bare}}, nil, false},
		"it is refused now":         {[][]model.Endpoint{{takes}, {}}, []any{disabled}, false},
		"never any":                 {[][]model.Endpoint{{}, {}}, nil, false},
		"never any, and STRICT":     {[][]model.Endpoint{{}, {}}, []any{strict}, true},
	} {
		for form, next := range map[string]func(*model.Mesh, *model.Service) *model.Mesh{
			"anew": func(m *model.Mesh, s *model.Service) *model.Mesh { return m.Next(slices.Values(all(test.policy, s))) },
			"by a small change": func(m *model.Mesh, s *model.Service) *model.Mesh {
				next, ok := m.With([]*model.Service{s}, nil)
				if !ok {
					t.Fatal("it is no small change")
				}
				return next
			},
		} {
			m := model.New(slices.Values(all(test.policy, db(test.steps[0]...))))
			last := RebuildWithSibling(nil, nil, m, view.In(m))
			for _, endpoints := range test.steps[1:] {
				m = next(m, db(endpoints...))
				last = RebuildWithSibling(last, nil, m, view.In(m))
			}
			for _, c := range last.Clusters {
				if c.Name == outboundName(5432, "", fqdn("db")) && (c.TransportSocket != nil) != test.want {
					t.Errorf("%s, made %s: mutual TLS is wanted: %t, the socket is %v", name, form, test.want, c.TransportSocket)
				}
			}
		}
	}
}
