package xds

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/golden"
)

// TestScenario compares the configuration for each file of testdata/scenario with its golden file, and validates it
// with the real Envoy. The first line of the file is "# " and the proxy's node as JSON; "mesh", "networks" and "domain" in it
// are the mesh's settings. Except for warned, the file must have no problems.
func TestScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := certificates(t) + "/"
			data = []byte(strings.ReplaceAll(string(data), "/CERTS/", dir))
			first, _, _ := strings.Cut(string(data), "\n")
			header := strings.TrimPrefix(first, "# ")
			proxy, settings := scenarioProxy(t, header)
			objects, problems := config.Decode(file, data)
			for _, p := range problems {
				if !allowed(file, p) {
					t.Errorf("problem: %v", p)
				}
			}
			m := model.NewIn(domainOf(t, header), slices.Values([]model.Group{{Objects: append(objects, settings...)}}))
			for _, p := range config.OfNotes(m.Notes()) {
				if !allowed(file, p) {
					t.Errorf("note: %v", p)
				}
			}
			r := Build(m, ViewOf(proxy))
			text := strings.ReplaceAll(string(document(t, r)), dir, "/CERTS/")
			golden.JSON(t, []byte(text))
			validate(t, r)
		})
	}
}

// warned lists the warnings that a scenario may have: it shows a field, not a typical use of it.
var warned = map[string]string{
	"fields-policy": "ejects no endpoint", "locality": "ejects no endpoint", "policy": "ejects no endpoint|spec.addresses",
	"tokens": "spec.addresses|are not known yet", "access": "spec.addresses|nothing is known of (a )?namespace|protocol: is missing|of-another: spec.selector", "dns-capture": "spec.addresses", "fields-rules": "spec.addresses|percent: is deprecated|has several ports|of VirtualService other/private|private.default.svc.cluster.local is a service of namespace default", "gateway": "spec.addresses", "scope": "spec.addresses", "sniff": "protocol: is missing",
	"custom-http": "spec.addresses|has failOpen|nobody is asked", "custom-grpc": "spec.addresses|has failOpen|nobody is asked", "custom-closed": "spec.addresses|nobody is asked|what its rules name is denied|no workload that is known has (app=edge|namespace default)",
	"agent-istio": "none names an account", "claims": "spec.addresses",
	"peer": "protocol: is missing", "peer-closed": "protocol: is missing", "peer-none": "protocol: is missing",
}

func allowed(file string, p config.Problem) bool {
	warnings := warned[strings.TrimSuffix(filepath.Base(file), ".yaml")]
	return warnings != "" && p.Severity == config.Warning && regexp.MustCompile(warnings).MatchString(p.String())
}

type scenario struct {
	ID       string
	Metadata map[string]any
	Locality string
	Mesh     json.RawMessage
	Networks json.RawMessage
	Domain   model.Domain
}

func domainOf(t testing.TB, header string) model.Domain {
	t.Helper()
	var s scenario
	if err := json.Unmarshal([]byte(header), &s); err != nil {
		t.Fatalf("first line: %v", err)
	}
	return s.Domain
}

func scenarioProxy(t testing.TB, header string) (Proxy, []*model.Object) {
	t.Helper()
	var s scenario
	if err := json.Unmarshal([]byte(header), &s); err != nil {
		t.Fatalf("first line: %v", err)
	}
	fields, err := structpb.NewStruct(s.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	l := model.ParseLocality(s.Locality)
	proxy, err := ParseProxy(&corev3.Node{
		Id: s.ID, Metadata: fields,
		Locality: &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone},
	})
	if err != nil {
		t.Fatal(err)
	}
	var settings []*model.Object
	for kind, text := range map[string]json.RawMessage{"MeshConfig": s.Mesh, "MeshNetworks": s.Networks} {
		if text == nil {
			continue
		}
		o, problems := config.DecodeSettings(kind, "settings", text)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		settings = append(settings, o)
	}
	return proxy, settings
}

// meshOf returns the mesh of objects in the way discovery makes it.
func meshOf(t *testing.T, objects []*model.Object) *model.Mesh {
	t.Helper()
	return model.New(slices.Values([]model.Group{{Objects: objects}}))
}
