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
		Host: "out.com", Namespace: "default", Resolution: model.ResolutionStatic,
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
	g.Vault, _ = g.Vault.Next(secret.Set{"default": shelf, "other": shelf})

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
