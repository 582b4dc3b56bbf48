//go:build wire

package wire

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// istioCase is a case of Istio's tables of validation, with Istio's verdict (see cases/asked_test.go.txt).
type istioCase struct {
	Case, Kind, Namespace, Error, Warning string
	Spec                                  json.RawMessage
}

// unquoted matches a number of 64 bits, which Go's JSON of protobuf has in quotes, and objects have not.
var unquoted = regexp.MustCompile(`("minimumRingSize":|"tableSize":)"([0-9]+)"`)

// istioCases reads the cases that fetch-peers took from Istio's module.
func istioCases(t *testing.T) (cases []istioCase) {
	t.Helper()
	f, err := os.Open(lab.Path("bin", "peers", "validation.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20) // one has a body of more than a MiB
	for lines.Scan() {
		var c istioCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		c.Spec = unquoted.ReplaceAll(c.Spec, []byte("$1$2"))
		base, _, _ := strings.Cut(c.Case, "#") // of the same case, asked twice
		if id := base + string(c.Spec); !seen[id] {
			seen[id] = true
			cases = append(cases, c)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// judged is our verdict in Istio's words: refused, warned or taken; and why.
func (c istioCase) judged() (verdict, reason string) {
	version := "v1"
	if c.Kind == "ProxyConfig" {
		version = "v1beta1"
	}
	namespace := c.Namespace
	if namespace == "" {
		namespace = "default"
	}
	group := "networking.istio.io"
	if c.Kind == "AuthorizationPolicy" || strings.HasSuffix(c.Kind, "Authentication") {
		group = "security.istio.io"
	}
	object := fmt.Sprintf(`{"apiVersion": "%s/%s", "kind": %q, "metadata": {"name": "a", "namespace": %q}, "spec": %s}`,
		group, version, c.Kind, namespace, c.Spec)
	_, problems := config.Decode("", []byte(object))
	verdict = "taken"
	var reasons []string
	for _, p := range problems {
		if p.Severity == config.Error {
			verdict = "refused"
		} else if verdict == "taken" {
			verdict = "warned"
		}
		reasons = append(reasons, string(p.Severity)+": "+p.Path+": "+p.Message)
	}
	return verdict, strings.Join(reasons, "\n\t\t")
}

// verdict is Istio's.
func (c istioCase) verdict() string {
	switch {
	case c.Error != "":
		return "refused"
	case c.Warning != "":
		return "warned"
	default:
		return "taken"
	}
}

// differs reports whether two verdicts differ: what one refuses, the other must not take, and a warning of Istio's must
// not be silence here. A warning where Istio is silent is none.
func differs(istio, ours string) bool {
	return (istio == "refused") != (ours == "refused") || istio == "warned" && ours == "taken"
}

// Of Istio's own tables of validation every case has Istio's verdict here, but for the differences that docs/compat.md
// lists with their reasons.
func TestIstioVerdicts(t *testing.T) {
	meant := map[string]bool{}
	for _, v := range config.Verdicts() {
		for _, name := range v.Cases {
			meant[name] = true
		}
	}
	cases := istioCases(t)
	if len(cases) < 500 {
		t.Fatalf("%d cases, want Istio's tables", len(cases))
	}
	for _, c := range cases {
		ours, reason := c.judged()
		switch istio := c.verdict(); {
		case !differs(istio, ours):
		case meant[c.Case]:
			delete(meant, c.Case)
		default:
			t.Errorf("%s: %s by Istio: %s%s\n\t%s here:\n\t\t%s\n\t%.500s", c.Case, istio, c.Error, c.Warning, ours, reason, c.Spec)
		}
	}
	for name := range meant {
		t.Errorf("%s: does not differ, or is no case any more", name)
	}
	t.Logf("%d cases", len(cases))
}
