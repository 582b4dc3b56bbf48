package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotlight/pilotlight/internal/golden"
)

func kindNamed(t *testing.T, name string) kind {
	t.Helper()
	if k, ok := settingsKind(name); ok {
		return k
	}
	k, ok := kindOf(bestOf(name), name)
	if !ok {
		t.Fatalf("kind %s is not served", name)
	}
	return k
}

// To ignore a field silently is a defect: each field of Istio's has an entry of its own, or is below one.
func TestSupportKnowsEveryField(t *testing.T) {
	for _, name := range KindNames() {
		entries := SupportOf(name)
		root := kindNamed(t, name).spec().ProtoReflect().Descriptor()
		paths := map[string]bool{"*": true}
		walk(root, "", 0, func(path string, leaf bool) {
			paths[path] = true
			if _, covered := entryOf(entries, path); leaf && !covered {
				t.Errorf("%s.%s has no entry in support.txt", name, path)
			}
		})
		seen := map[string]bool{}
		for _, s := range entries {
			if !paths[s.Path] {
				t.Errorf("support.txt: %s has no field %s", name, s.Path)
			}
			if seen[s.Path] {
				t.Errorf("support.txt: %s.%s is there twice", name, s.Path)
			}
			seen[s.Path] = true
		}
	}
}

func walk(m protoreflect.MessageDescriptor, above string, depth int, visit func(path string, leaf bool)) {
	if depth > 12 {
		return
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		path := strings.TrimPrefix(above+"."+fd.JSONName(), ".")
		below := fd.Message()
		if fd.IsMap() {
			below = fd.MapValue().Message()
		}
		leaf := below == nil || below.ParentFile().Package() == "google.protobuf"
		visit(path, leaf)
		if !leaf {
			walk(below, path, depth+1, visit)
		}
	}
}

// shown names the tests, with a real Envoy, that show the effect of the fields of policies.
var shown = map[string]string{
	"PeerAuthentication": "Shown at a real Envoy by TestPeerAuthentication (every mode and scope, ports, UNSET, a policy with an error, trustDomainAliases, 45 kinds of foreign " +
		"connections), TestAutomaticMutualTLS (clients) and TestPoliciesOverMutualTLS in `e2e/traffic`; TestStrictPods in `e2e/pod` shows ports that are intercepted.",
	"AuthorizationPolicy": "Shown at a real Envoy by TestRowsAtEnvoy (each field, by the rows of `discovery/authz/testdata/rows.yaml`), TestClaims (request.auth), TestCustom (CUSTOM, " +
		"over HTTP and gRPC), TestAPolicyAtASidecar (the same at a sidecar, and CUSTOM over TCP) and TestAPolicyOnItsWholeWay in `e2e/policies`; TestPoliciesOverMutualTLS in `e2e/traffic`.",
	"RequestAuthentication": "Shown at a real Envoy by TestTokens (each field of jwtRules), TestAPolicyAtASidecar, TestKeysAreFetched (jwksUri), TestRoutesByClaims and " +
		"TestABrokenRequestAuthenticationTakesNoToken in `e2e/policies`.",
}

// The tests that the tables name are there.
func TestShownByTestsThatExist(t *testing.T) {
	files, err := filepath.Glob("../../e2e/*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for kind, text := range shown {
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(text, -1) {
			if !strings.Contains(all.String(), "func "+name+"(") {
				t.Errorf("%s: no test %s", kind, name)
			}
		}
	}
}

// docs/compat.md is the table that the validator uses.
func TestCompatIsTheTable(t *testing.T) {
	head, err := os.ReadFile("compat.md")
	if err != nil {
		t.Fatal(err)
	}
	golden.Document(t, "../../docs/compat.md", string(head)+tables())
}

// Every difference from Istio has a reason, and a case that shows it, which shows no other one.
func TestDifferences(t *testing.T) {
	for name, all := range map[string][]Difference{"verdicts": Verdicts(), "simulated": Simulated(), "policies": Policies()} {
		if len(all) == 0 {
			t.Errorf("%s: there is none", name)
		}
		listed := map[string]bool{}
		for _, d := range all {
			if d.What == "" || d.Istio == "" || d.Here == "" || len(d.Cases) == 0 {
				t.Errorf("%s: %+v is not whole", name, d)
			}
			for _, c := range d.Cases {
				if listed[c] {
					t.Errorf("%s: %s is there twice", name, c)
				}
				listed[c] = true
			}
		}
	}
}

func table(all []Difference) string {
	cell := strings.NewReplacer("|", "\\|")
	out := "\n| what | Istio | here, and why |\n|---|---|---|\n"
	for _, d := range all {
		out += "| " + cell.Replace(d.What) + " | " + cell.Replace(d.Istio) + " | " + cell.Replace(d.Here) + " |\n"
	}
	return out
}

func tables() string {
	var b strings.Builder
	b.WriteString("\n## Verdicts\n\nOf Istio's own tables of validation, run by `make e2e-wire`, all cases of these kinds have Istio's verdict, but for:\n" +
		table(Verdicts()))
	b.WriteString("\n## Simulation\n\nIstio's own tests of what becomes of a request in the configuration of a proxy, run by `make e2e-wire` on what `serve` sends, end as in Istio, but for:\n" +
		table(Simulated()))
	b.WriteString("\n## Policies\n\nOf Istio's own tables of AuthorizationPolicy, run by `make e2e-wire`, all cases have Istio's answers where the real Envoy has Istio's filters and ours, but for:\n" +
		table(Policies()))
	for _, name := range KindNames() {
		b.WriteString("\n## " + name + "\n\n| field | | |\n|---|---|---|\n")
		for _, s := range SupportOf(name) {
			verdict := "yes"
			if !s.Served {
				verdict = "**no**"
			}
			path := "`" + s.Path + "`"
			if s.Path == "*" {
				path = "all others"
			}
			b.WriteString("| " + path + " | " + verdict + " | " + strings.ReplaceAll(s.Note, "|", "\\|") + " |\n")
		}
		if text := shown[name]; text != "" {
			b.WriteString("\n" + text + "\n")
		}
	}
	return b.String()
}
