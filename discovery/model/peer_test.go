package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	istiotype "istio.io/api/type/v1beta1"
)

// peer returns a policy. text has words such as "STRICT", "app=web" and "80:DISABLE"; age is in minutes.
func peer(namespace, name, text string, age int) *Object {
	mode := func(name string) *security.PeerAuthentication_MutualTLS {
		return &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_Mode(security.PeerAuthentication_MutualTLS_Mode_value[name])}
	}
	spec := &security.PeerAuthentication{}
	for word := range strings.FieldsSeq(text) {
		key, value, label := strings.Cut(word, "=")
		port, level, ported := strings.Cut(word, ":")
		switch {
		case label:
			if spec.Selector == nil {
				spec.Selector = &istiotype.WorkloadSelector{MatchLabels: map[string]string{}}
			}
			spec.Selector.MatchLabels[key] = value
		case ported:
			var n uint32
			fmt.Sscan(port, &n)
			if spec.PortLevelMtls == nil {
				spec.PortLevelMtls = map[uint32]*security.PeerAuthentication_MutualTLS{}
			}
			spec.PortLevelMtls[n] = mode(level)
		default:
			spec.Mtls = mode(word)
		}
	}
	return &Object{Meta: Meta{Kind: "PeerAuthentication", Namespace: namespace, Name: name, Created: time.Unix(1e9-int64(age)*60, 0)}, Spec: spec}
}

// shut returns what stands for a policy whose selector cannot be read.
func shut(namespace, name string, age int) *Object {
	o := peer(namespace, name, "STRICT", age)
	o.Spec.(*security.PeerAuthentication).Selector, o.Closed = &istiotype.WorkloadSelector{}, true
	return o
}

// The mode of port 80 of a workload of namespace shop with app=web.
func TestPeerModes(t *testing.T) {
	const root = "istio-system"
	for name, test := range map[string]struct {
		policies []*Object
		want     PeerMode
	}{
		"no policy":                           {nil, PeerPermissive},
		"the mesh's":                          {[]*Object{peer(root, "a", "STRICT", 1)}, PeerStrict},
		"the namespace's before the mesh's":   {[]*Object{peer(root, "a", "STRICT", 1), peer("shop", "a", "DISABLE", 1)}, PeerDisable},
		"another namespace's":                 {[]*Object{peer("other", "a", "STRICT", 1)}, PeerPermissive},
		"the workload's before the namespace": {[]*Object{peer("shop", "a", "STRICT", 9), peer("shop", "b", "app=web PERMISSIVE", 1)}, PeerPermissive},
		"another workload's":                  {[]*Object{peer("shop", "a", "app=db STRICT", 1)}, PeerPermissive},
		"the port's before the workload's":    {[]*Object{peer("shop", "a", "app=web PERMISSIVE 80:STRICT", 1)}, PeerStrict},
		"another port's":                      {[]*Object{peer("shop", "a", "app=web DISABLE 81:STRICT", 1)}, PeerDisable},
		"a port that is unset":                {[]*Object{peer("shop", "a", "app=web STRICT 80:UNSET", 1)}, PeerStrict},
		"a closed one of any workload":        {[]*Object{peer("shop", "a", "PERMISSIVE", 9), shut("shop", "b", 1)}, PeerStrict},
		"a closed one before the workload's":  {[]*Object{shut("shop", "a", 9), peer("shop", "b", "app=web PERMISSIVE", 1)}, PeerStrict},
		"a closed one that is younger":        {[]*Object{peer("shop", "a", "app=web PERMISSIVE", 9), shut("shop", "b", 1)}, PeerPermissive},
		"a closed one of the mesh":            {[]*Object{shut(root, "a", 1)}, PeerStrict},
		"a closed one of another namespace":   {[]*Object{shut("other", "a", 1)}, PeerPermissive},
		"unset all the way":                   {[]*Object{peer(root, "a", "STRICT", 1), peer("shop", "a", "UNSET", 1), peer("shop", "b", "app=web UNSET 80:UNSET", 1)}, PeerStrict},
		"no mode at all":                      {[]*Object{peer(root, "a", "STRICT", 1), peer("shop", "a", "", 1), peer("shop", "b", "app=web", 1)}, PeerStrict},
		"the oldest of a namespace":           {[]*Object{peer("shop", "a", "DISABLE", 1), peer("shop", "b", "STRICT", 2)}, PeerStrict},
		"the oldest of the mesh":              {[]*Object{peer(root, "a", "DISABLE", 1), peer(root, "b", "STRICT", 2)}, PeerStrict},
		"the oldest of a workload":            {[]*Object{peer("shop", "a", "app=web DISABLE", 1), peer("shop", "b", "app=web STRICT", 2)}, PeerStrict},
		"the oldest, unset":                   {[]*Object{peer("shop", "a", "STRICT", 1), peer("shop", "b", "UNSET", 2)}, PeerPermissive},
		"a selector in the root namespace":    {[]*Object{peer(root, "a", "app=web STRICT", 1)}, PeerPermissive},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{Objects: test.policies}}))
			if got := m.Peers("shop").Of(map[string]string{"app": "web", "version": "v1"}).Mode(80); got != test.want {
				t.Errorf("the mode is %d, want %d", got, test.want)
			}
		})
	}
}

// A workload in the root namespace follows the mesh's policy, and none with a selector.
func TestPeersOfTheRootNamespace(t *testing.T) {
	m := New(slices.Values([]Group{{Objects: []*Object{peer("istio-system", "a", "app=web DISABLE", 2), peer("istio-system", "b", "STRICT", 1)}}}))
	if got := m.Peers("istio-system").Of(map[string]string{"app": "web"}).Mode(80); got != PeerStrict {
		t.Errorf("the mode is %d, want STRICT", got)
	}
}

// Policies keep their pointers in the next generation, so that nothing is made again.
func TestPeersAreKept(t *testing.T) {
	objects := []*Object{peer("istio-system", "a", "STRICT", 1), peer("shop", "a", "app=web STRICT", 1)}
	before := New(slices.Values([]Group{{Objects: objects}}))
	after := before.Next(slices.Values([]Group{{Objects: append(objects, peer("other", "a", "DISABLE", 1))}}))
	for _, namespace := range []string{"istio-system", "shop", "empty"} {
		if before.Peers(namespace) != after.Peers(namespace) {
			t.Errorf("%s: the policies are made again", namespace)
		}
	}
	if before.Peers("other") == after.Peers("other") {
		t.Error("other: the new policy is not there")
	}
}

// What a policy does not do is said.
func TestPeerNotes(t *testing.T) {
	closed := peer("shop", "a", "app=web STRICT", 1)
	closed.Closed = true
	labels := map[string]string{"app": "web"}
	bare := Proxy{Name: "web-1", Namespace: "shop", Labels: labels}
	certified := Proxy{Name: "web-2", Namespace: "shop", Labels: labels, Certificate: true}
	for name, test := range map[string]struct {
		policies  []*Object
		connected []Proxy
		want      []string
	}{
		"a selector in the root namespace": {
			[]*Object{peer("istio-system", "a", "app=web STRICT", 1)}, nil, []string{"ignored-field spec.selector: selects nothing: istio-system is the root namespace"},
		},
		"two of a namespace": {
			[]*Object{peer("shop", "a", "STRICT", 1), peer("shop", "b", "STRICT", 2)}, nil, []string{"conflict spec: the same workloads follow PeerAuthentication shop/b"},
		},
		"two of a selector": {
			[]*Object{peer("shop", "a", "app=web STRICT", 1), peer("shop", "b", "app=web STRICT", 2)},
			nil,
			[]string{"conflict spec: the same workloads follow PeerAuthentication shop/b"},
		},
		"two that select one workload": {
			[]*Object{peer("shop", "a", "app=web STRICT", 1), peer("shop", "b", "version=v1 STRICT", 2)},
			[]Proxy{{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web", "version": "v1"}, Certificate: true}},
			[]string{"conflict spec.selector: workloads with app=web, version=v1 follow PeerAuthentication shop/b"},
		},
		"a closed one": {
			[]*Object{closed}, []Proxy{certified}, []string{"closed-policy : has an error, and no good form of it is known: until it is mended, it is STRICT for the workloads of namespace shop with app=web"},
		},
		"STRICT with a certificate": {[]*Object{peer("shop", "a", "STRICT", 1)}, []Proxy{certified}, nil},
		"STRICT without a certificate": {
			[]*Object{peer("shop", "a", "STRICT", 1)},
			[]Proxy{bare, certified},
			[]string{"no-certificate spec: STRICT closes ports of connected proxies that have no certificate, shop/web-1: nobody reaches them"},
		},
		"one port without a certificate": {
			[]*Object{peer("shop", "a", "app=web 80:STRICT", 1)}, []Proxy{bare}, []string{"no-certificate spec: STRICT closes ports of connected proxies"},
		},
		"STRICT that another one lifts": {[]*Object{peer("istio-system", "a", "STRICT", 1), peer("shop", "a", "DISABLE", 1)}, []Proxy{bare}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{Objects: test.policies}}))
			var got []string
			for _, n := range m.Notes(test.connected...) {
				got = append(got, fmt.Sprintf("%s %s: %s", n.Code, n.Path, n.Message))
			}
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("the notes are %q, want %q", got, test.want)
			}
		})
	}
}

// Clients that check no account are named, once for each service.
func TestNoAccountNotes(t *testing.T) {
	labelled := map[string]string{tlsModeLabel: "istio"}
	for name, test := range map[string]struct {
		service Service
		noted   bool
	}{
		"a label alone":               {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1", Labels: labelled}}}, true},
		"an account":                  {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1", Labels: labelled, ServiceAccount: "a"}}}, false},
		"an account of a declaration": {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1", ServiceAccount: "a", Proxied: true}}}, false},
		"names of its certificates":   {Service{Right: RightFull, SubjectAltNames: []string{"a.test"}, Endpoints: []Endpoint{{Address: "10.0.0.1", Labels: labelled}}}, false},
		"no sidecar":                  {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1"}}}, false},
		"a label that says no":        {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1", Proxied: true, Labels: map[string]string{tlsModeLabel: "disabled"}}}}, false},
		"outside of the mesh":         {Service{Right: RightFull, External: true, Endpoints: []Endpoint{{Address: "10.0.0.1", Labels: labelled}}}, false},
	} {
		s := test.service
		s.Host, s.Namespace, s.Registry = "app.test", "shop", "mock"
		noted := slices.ContainsFunc(New(slices.Values([]Group{{Services: []*Service{&s}}})).Notes(), func(n Note) bool { return n.Code == NoAccount })
		if noted != test.noted {
			t.Errorf("%s: noted %v, want %v", name, noted, test.noted)
		}
	}
}

// A headless service whose instances differ in whether they take mutual TLS is named, as its clients send plain text.
func TestMixedInstances(t *testing.T) {
	takes, bare := Endpoint{Address: "10.0.0.1", ServiceAccount: "a", Proxied: true}, Endpoint{Address: "10.0.0.2"}
	refuses, away := Endpoint{Address: "10.0.0.3", Proxied: true, Labels: map[string]string{tlsModeLabel: "disabled"}}, bare
	away.Health = HealthUnhealthy
	for name, test := range map[string]struct {
		endpoints []Endpoint
		change    func(*Service, *meshconfig.MeshConfig)
		want      string // the beginning of the note
	}{
		"one of two":            {[]Endpoint{takes, bare}, nil, "1 of 2 instances of db.test take no mutual TLS, one of them 10.0.0.2"},
		"a label says no":       {[]Endpoint{takes, refuses}, nil, "1 of 2 instances of db.test take no mutual TLS, one of them 10.0.0.3"},
		"one that is not ready": {[]Endpoint{takes, away}, nil, "1 of 2 instances"},
		"all":                   {[]Endpoint{takes, takes}, nil, ""},
		"none":                  {[]Endpoint{bare, refuses}, nil, ""},
		"no instance":           {nil, nil, ""},
		"with an address":       {[]Endpoint{takes, bare}, func(s *Service, _ *meshconfig.MeshConfig) { s.Headless = false }, ""},
		"outside of the mesh":   {[]Endpoint{takes, bare}, func(s *Service, _ *meshconfig.MeshConfig) { s.External = true }, ""},
		"no mutual TLS by itself": {[]Endpoint{takes, bare}, func(_ *Service, c *meshconfig.MeshConfig) {
			c.EnableAutoMtls = wrapperspb.Bool(false)
		}, ""},
	} {
		s, c := &Service{Right: RightFull, Host: "db.test", Namespace: "shop", Registry: "mock", Headless: true, Endpoints: test.endpoints}, &meshconfig.MeshConfig{}
		if test.change != nil {
			test.change(s, c)
		}
		mesh := New(slices.Values([]Group{{Services: []*Service{s}, Objects: []*Object{{Meta: Meta{Kind: "MeshConfig", Name: "mesh"}, Spec: c}}}}))
		got := ""
		for _, n := range mesh.Notes() {
			if n.Code == MixedInstances {
				got += n.Message
			}
		}
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: the note is %q, want %q", name, got, test.want)
		}
	}
}

// A DestinationRule with ISTIO_MUTUAL has clients speak mutual TLS to endpoints that do not ask for it: where none has an account, the rule is named too.
func TestNoAccountUnderIstioMutual(t *testing.T) {
	mutual := &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}}
	plain := []Endpoint{{Address: "10.0.0.1"}}
	const top = "spec.trafficPolicy.tls"
	for name, test := range map[string]struct {
		service Service
		rule    *networking.DestinationRule
		want    string // the path of the note
	}{
		"no account":         {Service{Right: RightFull, Endpoints: plain}, &networking.DestinationRule{TrafficPolicy: mutual}, top},
		"outside":            {Service{Right: RightFull, External: true, Endpoints: plain}, &networking.DestinationRule{TrafficPolicy: mutual}, top},
		"an account":         {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1", ServiceAccount: "a"}}}, &networking.DestinationRule{TrafficPolicy: mutual}, ""},
		"names":              {Service{Right: RightFull, SubjectAltNames: []string{"a.test"}, Endpoints: plain}, &networking.DestinationRule{TrafficPolicy: mutual}, ""},
		"names of the rule":  {Service{Right: RightFull, Endpoints: plain}, &networking.DestinationRule{TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: mutual.Tls.Mode, SubjectAltNames: []string{"a"}}}}, ""},
		"another mode":       {Service{Right: RightFull, Endpoints: plain}, &networking.DestinationRule{TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}}}, ""},
		"no endpoint":        {Service{}, &networking.DestinationRule{TrafficPolicy: mutual}, ""},
		"a subset":           {Service{Right: RightFull, Endpoints: plain}, &networking.DestinationRule{Subsets: []*networking.Subset{{Name: "v1", TrafficPolicy: mutual}}}, "spec.subsets[0].trafficPolicy.tls"},
		"a port":             {Service{Right: RightFull, Endpoints: plain}, &networking.DestinationRule{TrafficPolicy: &networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: 80}, Tls: mutual.Tls}}}}, "spec.trafficPolicy.portLevelSettings[0].tls"},
		"noted at a service": {Service{Right: RightFull, Endpoints: []Endpoint{{Address: "10.0.0.1", Proxied: true}}}, &networking.DestinationRule{TrafficPolicy: mutual}, top},
	} {
		s := test.service
		s.Host, s.Namespace, s.Registry, s.Ports = "app.test", "shop", "mock", []Port{{Number: 80, Protocol: HTTP}}
		test.rule.Host = s.Host
		rule := &Object{Meta: Meta{Kind: "DestinationRule", Namespace: "shop", Name: "a"}, Spec: test.rule}
		got := ""
		for _, n := range New(slices.Values([]Group{{Services: []*Service{&s}, Objects: []*Object{rule}}})).Notes() {
			if n.Code == NoAccount && n.Meta.Kind == "DestinationRule" {
				got += n.Path
			}
		}
		if got != test.want {
			t.Errorf("%s: noted at %q, want %q", name, got, test.want)
		}
	}
}
