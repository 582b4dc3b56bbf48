//go:build wire

package policies

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// peerCase is a case of the table that tests which PeerAuthentications count for a workload of namespace my-ns.
type peerCase struct {
	name   string
	labels map[string]string // which all selectors select
	input  []byte            // objects as YAML
	wanted map[string]any    // the mode, and those of ports
}

var (
	created  = strings.NewReplacer(`Timestamp":"now"`, `Timestamp":"2026-01-01T00:00:09Z"`, `Timestamp":"Second"`, `Timestamp":"2026-01-01T00:00:08Z"`, "PeerAuthentication_MutualTLS_", "")
	modeName = map[model.PeerMode]string{model.PeerPermissive: "MTLSPermissive", model.PeerStrict: "MTLSStrict", model.PeerDisable: "MTLSDisable"}
)

func peerTable(t *testing.T, dir string) (out []peerCase) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "policy_applier_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rowsOf(source, "TestComposePeerAuthentication", "tests") {
		c := peerCase{labels: map[string]string{}}
		for _, e := range row.Elts {
			field := e.(*ast.KeyValueExpr)
			value := literal(field.Value)
			switch name := literal(field.Key); name {
			case "name":
				c.name = "peers/" + value.(string)
			case "configs":
				for _, object := range value.([]any) {
					c.add(t, object.(map[string]any))
				}
			case "want":
				c.wanted = value.(map[string]any)
			default:
				t.Fatalf("%s: a case has this field, which this test does not know", name)
			}
		}
		out = append(out, c)
	}
	return out
}

func (c *peerCase) add(t *testing.T, object map[string]any) {
	t.Helper()
	selector, _ := object["spec"].(map[string]any)["selector"].(map[string]any)
	labels, _ := selector["matchLabels"].(map[string]any)
	for key, value := range labels {
		c.labels[key] = value.(string)
	}
	meta := object["meta"].(map[string]any)
	meta["name"] = strings.ReplaceAll(meta["name"].(string), " ", "-") // which no name may have
	text, err := json.Marshal(map[string]any{
		"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": meta, "spec": object["spec"],
	})
	if err != nil {
		t.Fatal(err)
	}
	c.input = append(append(c.input, created.Replace(string(text))...), "\n---\n"...)
}

// ours returns what discovery takes from the same objects.
func (c *peerCase) ours(t *testing.T) map[string]any {
	t.Helper()
	var objects []*model.Object
	for _, item := range config.Read(c.input) {
		if item.Object == nil {
			t.Fatalf("%s: %+v", c.name, item.Problems)
		}
		objects = append(objects, item.Object)
	}
	settings, problems := config.DecodeSettings("MeshConfig", "mesh", []byte("rootNamespace: root-namespace"))
	if settings == nil {
		t.Fatal(problems)
	}
	m := model.New(slices.Values([]model.Group{{Objects: append(objects, settings)}}))
	p := m.Peers("my-ns").Of(c.labels)
	out := map[string]any{"mode": modeName[p.Mode(0)]}
	ports := map[string]any{}
	for _, port := range p.Ports() {
		ports[fmt.Sprint(port)] = modeName[p.Mode(port)]
	}
	if len(ports) > 0 {
		out["perPort"] = ports
	}
	return out
}

// Each case of Istio's table of PeerAuthentication has the same modes here.
func TestIstioPeers(t *testing.T) {
	cases, listed := peerTable(t, filepath.Join(lab.IstioModule(t), "pilot", "pkg", "security", "authn")), meant("peers/")
	differ := 0
	for _, c := range cases {
		theirs, ours := fmt.Sprint(c.wanted), fmt.Sprint(c.ours(t))
		switch {
		case theirs == ours:
		case listed[c.name]:
			differ++
			delete(listed, c.name)
		default:
			t.Errorf("%s: Istio's are %s, ours %s", c.name, theirs, ours)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("%s: does not differ, or is no case any more", name)
	}
	if len(cases) < 14 {
		t.Errorf("%d cases, want Istio's table", len(cases))
	}
	t.Logf("%d of %d cases agree, %d differ as listed", len(cases)-differ, len(cases), differ)
}
