package xds

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/golden"
)

// TestGolden compares whole configurations with reviewed ones, and validates each with the real Envoy.
func TestGolden(t *testing.T) {
	tests := map[string]struct {
		ip    string
		parts []any
	}{
		"bookinfo": {"127.0.0.13", bookinfo()},
		"dns": {"127.0.0.9", []any{&model.Service{
			Right: model.RightFull, Host: "api.example.com", Resolution: model.ResolutionDNS,
			Ports:     []model.Port{httpPort(80), {Name: "grpc", Number: 443, Protocol: model.GRPC}},
			Endpoints: []model.Endpoint{{Address: "one.example.com"}, {Address: "two.example.com", Weight: 3}},
		}}},
		"weights": {"127.0.0.9", append(bookinfo(), &networking.VirtualService{
			Hosts: []string{"ratings"},
			Http: []*networking.HTTPRoute{{
				Name: "canary",
				Match: []*networking.HTTPMatchRequest{{
					Uri:     prefix("/v2"),
					Headers: map[string]*networking.StringMatch{"x-canary": regex("*")},
				}},
				Route: []*networking.HTTPRouteDestination{to("reviews", "v1", 80), to("reviews", "v2", 20), to("details", "", 0)},
			}},
		})},
		"tcp":  {"127.0.0.9", []any{sidecar(ingress(6379, "TCP", "127.0.0.1:16379"), ingress(9000, "GRPC", ""))}},
		"unix": {"127.0.0.9", []any{sidecar(ingress(8080, "HTTP", "unix:///run/app/http.sock"))}},
		"none": {"127.0.0.9", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := Build(mesh(test.parts...), viewOf(t, test.ip))
			golden.JSON(t, document(t, r))
			validate(t, r)
		})
	}
}

// A headless service has no address of its own: clients connect to its endpoints, each of which has a listener, and are
// forwarded to the address that they used.
func TestGoldenHeadless(t *testing.T) {
	headless := service(fqdn("db"), model.Port{Name: "tcp", Number: 5432, Protocol: model.TCP}, at("10.0.0.2", "v1"), at("10.0.0.3", "v1"))
	headless.Headless, headless.Resolution = true, model.ResolutionNone
	headless.Ports = append(headless.Ports, model.Port{Name: "any", Number: 7000}, httpPort(80))
	proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.1~app.default~"+clusterDomain, map[string]any{"NAMESPACE": "default"}))
	if err != nil {
		t.Fatal(err)
	}
	r := Build(mesh(headless), ViewOf(proxy))
	golden.JSON(t, document(t, r))
	validate(t, r)
}

// bookinfo returns the demo's mesh as the sidecar of reviews v1 sees it.
func bookinfo() []any {
	port := httpPort(9080)
	return []any{
		service(fqdn("productpage"), port, at("127.0.0.11", "v1")),
		service(fqdn("details"), port, at("127.0.0.12", "v1")),
		service(fqdn("reviews"), port, at("127.0.0.13", "v1"), at("127.0.0.14", "v2")),
		service(fqdn("ratings"), port, at("127.0.0.15", "v1")),
		versions("reviews"),
		&networking.VirtualService{Hosts: []string{"reviews"}, Http: []*networking.HTTPRoute{
			{
				Name:  "jason",
				Match: []*networking.HTTPMatchRequest{headers("end-user", exact("jason"))},
				Route: []*networking.HTTPRouteDestination{to("reviews", "v2", 0)},
			},
			{Name: "all", Route: []*networking.HTTPRouteDestination{to("reviews", "v1", 100)}},
		}},
		sidecar(ingress(9080, "HTTP", "127.0.0.1:19083")),
	}
}

func document(t *testing.T, r *Resources) []byte {
	t.Helper()
	out, err := json.Marshal(map[string]any{
		"clusters": jsonList(t, r.Clusters), "endpoints": jsonList(t, r.Endpoints),
		"listeners": jsonList(t, r.Listeners), "routes": jsonList(t, r.Routes),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func jsonList[T proto.Message](t *testing.T, list []T) []json.RawMessage {
	t.Helper()
	out := []json.RawMessage{}
	for _, m := range list {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text)
	}
	return out
}
