package model

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// Of two objects that claim the same thing the older one is used, then the one whose name sorts first. The note on the
// other object names the winner.
func TestConflicts(t *testing.T) {
	rules := func(exportTo ...string) *networking.VirtualService {
		return &networking.VirtualService{Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{{}}, ExportTo: exportTo}
	}
	entry := &networking.ServiceEntry{Hosts: []string{"own.test", "X.test"}}
	sidecar := func(labels map[string]string) *networking.Sidecar {
		return &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: labels}}
	}
	gateway := func(number uint32, protocol string, hosts ...string) *networking.Gateway {
		return &networking.Gateway{Servers: []*networking.Server{{
			Port: &networking.Port{Number: number, Protocol: protocol}, Hosts: hosts,
			Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE},
		}}}
	}
	policy := &networking.DestinationRule{
		Host: "x.test", TrafficPolicy: &networking.TrafficPolicy{},
		Subsets: []*networking.Subset{{Name: "v1"}},
	}
	for name, test := range map[string]struct {
		first, second any // of b/first and a/second, which is younger
		want          string
	}{
		"rules":                            {rules(), rules(), "spec.hosts[0]: x.test is claimed by"},
		"rules that each sees alone":       {rules("."), rules("."), ""},
		"rules that one namespace sees":    {rules("c", "."), rules("d", "c"), "spec.hosts[0]: x.test is claimed by"},
		"rules of which one is for all":    {rules("."), rules("*"), "spec.hosts[0]: x.test is claimed by"},
		"rules of which one is for nobody": {rules(), rules("~"), ""},
		"declarations of two namespaces":   {entry, entry, ""},
		"Sidecars of two namespaces":       {sidecar(nil), sidecar(nil), ""},
		"servers of a plain port":          {gateway(80, "HTTP", "*"), gateway(80, "HTTP", "*"), ""},
		"a plain port": {
			gateway(80, "HTTP", "*"), gateway(80, "TLS", "*"),
			"spec.servers[0]: the port takes plain HTTP for",
		},
		"an encrypted port": {
			gateway(80, "HTTPS", "*"), gateway(80, "HTTP", "*"),
			"spec.servers[0]: the port takes no plain HTTP because of",
		},
		"two ports": {gateway(80, "HTTPS", "*"), gateway(81, "HTTP", "*"), ""},
		"a server's host": {
			gateway(443, "HTTPS", "./x.test"),
			gateway(443, "HTTPS", "y.test", "b/X.test"), "spec.servers[0].hosts[1]: x.test is served by",
		},
		"policies are of their namespace":   {policy, policy, ""},
		"a rule at a gateway joins another": {atGateway(rules()), atGateway(rules()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			notes := meshOf([]*Object{
				object(kindOf(test.second), "a", "second", 2, test.second),
				object(kindOf(test.first), "b", "first", 1, test.first),
			}).Notes()
			expectNote(t, notes, "a/second", test.want, kindOf(test.first)+" b/first, which is older")
		})
	}
	for name, test := range map[string]struct {
		spec any
		want string
	}{
		"Sidecars":                 {sidecar(nil), "spec: the same workloads follow"},
		"Sidecars of one selector": {sidecar(map[string]string{"a": "b", "c": "d"}), "spec: the same workloads follow"},
		"policies":                 {policy, "spec.subsets[0]: x.test has a subset v1 from"},
	} {
		t.Run(name+" of one namespace, by name", func(t *testing.T) {
			notes := meshOf([]*Object{
				object(kindOf(test.spec), "a", "second", 1, test.spec),
				object(kindOf(test.spec), "a", "first", 1, test.spec),
			}).Notes()
			expectNote(t, notes, "a/second", test.want, kindOf(test.spec)+" a/first, which is older or comes first")
		})
	}
}

func atGateway(v *networking.VirtualService) *networking.VirtualService {
	v.Gateways = []string{"c/gw"}
	return v
}

func kindOf(spec any) string {
	switch spec.(type) {
	case *networking.VirtualService:
		return "VirtualService"
	case *networking.ServiceEntry:
		return "ServiceEntry"
	case *networking.Sidecar:
		return "Sidecar"
	case *networking.Gateway:
		return "Gateway"
	default:
		return "DestinationRule"
	}
}

// expectNote checks the first note of the loser that names a winner, or that there is none if start is empty.
func expectNote(t *testing.T, notes []Note, loser, start, winner string) {
	t.Helper()
	for _, n := range notes {
		text := n.Path + ": " + n.Message
		switch {
		case n.Code != Conflict:
		case start == "":
			t.Errorf("%s has the note %s", n.Meta.Key(), text)
		case n.Meta.Namespace+"/"+n.Meta.Name != loser || !strings.HasPrefix(text, start) || !strings.Contains(text, winner):
			t.Errorf("%s has the note %q, want %q to %s of %s", n.Meta.Key(), text, start, loser, winner)
		default:
			return
		}
	}
	if start != "" {
		t.Errorf("no object has the note %q", start)
	}
}

func TestPatternsOf(t *testing.T) {
	for host, want := range map[string][]string{
		"a.b.test": {"a.b.test", "*.b.test", "*.test", "*"},
		"*.b.test": {"*.b.test", "*.test", "*"},
		"test":     {"test", "*"},
		"*.test":   {"*.test", "*"},
		"*":        {"*"},
	} {
		if got := slices.Collect(patternsOf(host)); !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", host, got, want)
		}
	}
}
