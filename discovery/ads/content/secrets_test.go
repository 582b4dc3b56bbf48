package content

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// A secret is sent only to proxies in its namespace whose configuration names it; a key only to those of its service
// accounts.
func TestSecretsByWhatTheProxyIs(t *testing.T) {
	group := model.Group{Objects: []*model.Object{{
		Meta: model.Meta{Kind: "Gateway", Namespace: "elsewhere", Name: "gw"},
		Spec: &networking.Gateway{Selector: map[string]string{"gateway": "gw"}, Servers: []*networking.Server{{
			Port: &networking.Port{Number: 443, Name: "https", Protocol: "HTTPS"}, Hosts: []string{"a.test"},
			Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_MUTUAL, CredentialName: "door"},
		}}},
	}, {
		Meta: model.Meta{Kind: "Sidecar", Namespace: "default", Name: "in"},
		Spec: &networking.Sidecar{
			WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "in"}},
			Ingress: []*networking.IstioIngressListener{{
				Port: &networking.SidecarPort{Number: 8443, Name: "https", Protocol: "HTTPS"}, DefaultEndpoint: "127.0.0.1:8080",
				Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: "in"},
			}},
		},
	}, {
		Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: "out"},
		Spec: &networking.DestinationRule{
			Host: "out.com", WorkloadSelector: &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "out"}},
			TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{
				Mode: networking.ClientTLSSettings_MUTUAL, CredentialName: "out",
			}},
		},
	}}, Services: []*model.Service{{
		Right: model.RightFull, Host: "out.com", Namespace: "default", Resolution: model.ResolutionStatic,
		Ports:     []model.Port{{Name: "tcp", Number: 80, Protocol: model.TCP}},
		Endpoints: []model.Endpoint{{Address: "10.0.0.1"}},
	}}}
	shelf := map[string]secret.Secret{}
	for _, name := range []string{"door", "in", "out", "unnamed"} {
		shelf[name] = secret.Secret{Certificate: []byte("c"), Key: []byte("k"), Accounts: []string{"gateway"}}
		shelf[name+"-cacert"] = secret.Secret{Roots: []byte("r")}
	}
	var none *Views
	g := none.Follow(model.New(slices.Values([]model.Group{group})), NewInterner())
	g.Secrets, _ = g.Secrets.Next(secret.Set{"default": shelf, "other": shelf})

	for name, test := range map[string]struct {
		role, namespace, labels, account string
		want                             string
	}{
		"the gateway":                     {"router", "default", "gateway=gw", "gateway", "door door-cacert"},
		"one in another namespace":        {"router", "other", "gateway=gw", "gateway", "door door-cacert"}, // its own door
		"a gateway of a third":            {"router", "third", "gateway=gw", "gateway", ""},
		"a gateway that is not selected":  {"router", "default", "gateway=gx", "gateway", ""},
		"an app that claims to be one":    {"router", "default", "gateway=gw", "app", "door-cacert"}, // roots are no secret
		"a sidecar with its labels":       {"sidecar", "default", "gateway=gw", "gateway", ""},
		"a sidecar":                       {"sidecar", "default", "app=x", "gateway", ""},
		"a sidecar under the rule":        {"sidecar", "default", "app=out", "gateway", "out out-cacert"},
		"one of another account":          {"sidecar", "default", "app=out", "app", "out-cacert"},
		"a sidecar whose port ends TLS":   {"sidecar", "default", "app=in", "gateway", "in"},
		"a program on this host, plainly": {"router", "default", "gateway=gw", "", "door door-cacert"},
	} {
		t.Run(name, func(t *testing.T) {
			key, value, _ := strings.Cut(test.labels, "=")
			metadata, err := structpb.NewStruct(map[string]any{
				"NAMESPACE": test.namespace, "LABELS": map[string]any{key: value}, "INTERCEPTION_MODE": "NONE",
			})
			if err != nil {
				t.Fatal(err)
			}
			proxy, err := xds.ParseProxy(&corev3.Node{Id: test.role + "~10.0.0.9~p.x~x.svc.cluster.local", Metadata: metadata})
			if err != nil {
				t.Fatal(err)
			}
			r := Reader{View: xds.ViewOf(proxy), Secrets: true, Account: test.account}
			var got []string
			for _, r := range g.Snapshot(r)[SDS].All() {
				got = append(got, r.Name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("gets %q, want %q", got, test.want)
			}
			lacking := func(namespace, name string) string { return "nobody has brought " + namespace + "/" + name }
			for name := range shelf {
				if why := g.Withheld(name, r, lacking); (why == "") != slices.Contains(got, name) {
					t.Errorf("%s: the reason for withholding it is %q", name, why)
				}
			}
			if why := g.Withheld("none", r, lacking); !strings.HasSuffix(why, "has no secret of this name: nobody has brought "+r.Outbound.Namespace+"/none") {
				t.Errorf("a secret that is not there is withheld by %q", why)
			}
			if r.Secrets = false; g.Snapshot(r)[SDS].Size() != 0 {
				t.Error("a stream that asks for no secrets has some")
			}
		})
	}
}

// A proxy shows a key of its namespace for DestinationRules of that namespace, of the root namespace, and of those that the secret lists.
// Each other rule names a secret that the proxy does not get, so that its cluster sends nothing; roots are no secret.
func TestKeysForRulesOfOtherNamespaces(t *testing.T) {
	const mutual, simple = networking.ClientTLSSettings_MUTUAL, networking.ClientTLSSettings_SIMPLE
	for name, row := range map[string]struct {
		rule, listed string
		mode         networking.ClientTLSSettings_TLSmode
		account      string
		where        string
		want, why    string
	}{
		"of the proxy's namespace":     {"edge", "", mutual, "gw", "", "partner partner-cacert", ""},
		"of the root namespace":        {"istio-system", "", mutual, "gw", "", "partner partner-cacert", ""},
		"of a listed namespace":        {"shop", "bank shop", mutual, "gw", "", "destination-rule://shop/partner partner-cacert", ""},
		"of another account":           {"shop", "bank shop", mutual, "app", "", "partner-cacert", "service account"},
		"of another namespace":         {"evil", "bank shop", mutual, "gw", "", "partner-cacert", `of namespace "evil" may not use the key of secret edge/partner`},
		"for a port":                   {"evil", "bank", mutual, "gw", "port", "partner-cacert", `of namespace "evil" may not use`},
		"of a subset":                  {"evil", "bank", mutual, "gw", "subset", "partner-cacert", `of namespace "evil" may not use`},
		"of a subset's port":           {"evil", "bank", mutual, "gw", "subset port", "partner-cacert", `of namespace "evil" may not use`},
		"with a star":                  {"evil", "*", mutual, "gw", "", "partner-cacert", `of namespace "evil" may not use`},
		"plainly on this host":         {"evil", "", mutual, "", "", "partner-cacert", `of namespace "evil" may not use`},
		"of another one, by the roots": {"evil", "", simple, "gw", "", "partner-cacert", ""},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: row.mode, CredentialName: "partner"}}
			if strings.Contains(row.where, "port") {
				policy = &networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: 80}, Tls: policy.Tls}}}
			}
			rule := &networking.DestinationRule{Host: "out.com", TrafficPolicy: policy}
			if strings.Contains(row.where, "subset") {
				rule = &networking.DestinationRule{Host: "out.com", Subsets: []*networking.Subset{{Name: "v1", TrafficPolicy: policy}}}
			}
			group := model.Group{Objects: []*model.Object{
				{Meta: model.Meta{Kind: "DestinationRule", Namespace: row.rule, Name: "out"}, Spec: rule},
			}, Services: []*model.Service{{
				Right: model.RightFull, Host: "out.com", Namespace: row.rule, Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "tcp", Number: 80, Protocol: model.TCP}},
				Endpoints: []model.Endpoint{{Address: "10.0.0.1"}},
			}}}
			var none *Views
			g := none.Follow(model.New(slices.Values([]model.Group{group})), NewInterner())
			g.Secrets, _ = g.Secrets.Next(secret.Set{"edge": {
				"partner":        {Certificate: []byte("c"), Key: []byte("k"), Accounts: []string{"gw"}, Namespaces: strings.Fields(row.listed)},
				"partner-cacert": {Roots: []byte("r")},
			}})
			metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "edge", "INTERCEPTION_MODE": "NONE"})
			if err != nil {
				t.Fatal(err)
			}
			proxy, err := xds.ParseProxy(&corev3.Node{Id: "sidecar~10.0.0.9~p.edge~edge.svc.cluster.local", Metadata: metadata})
			if err != nil {
				t.Fatal(err)
			}
			r := Reader{View: xds.ViewOf(proxy), Secrets: true, Account: row.account}
			var got []string
			for _, r := range g.Snapshot(r)[SDS].All() {
				got = append(got, r.Name)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != row.want {
				t.Errorf("gets %q, want %q", got, row.want)
			}
			asked := "partner"
			if row.rule != "edge" && row.rule != "istio-system" {
				asked = model.LentSecret(row.rule, asked)
			}
			why := g.Withheld(asked, r, func(string, string) string { return "" })
			if !strings.Contains(why, row.why) || row.mode == mutual && (why == "") != (row.why == "") {
				t.Errorf("withheld by %q, want %q", why, row.why)
			}
		})
	}
}
