package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ruleTest is an object's spec, as a file has it, and all its problems: "line severity path: message". The spec's first
// line is line 1.
type ruleTest struct {
	spec string
	want []string
}

func runRules(t *testing.T, kind string, tests map[string]ruleTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f", object(kind, test.spec))
			var got []string
			for _, p := range problems {
				line := p.Line - 5 // of the envelope
				p.File, p.Line, p.Object = "", 0, ""
				got = append(got, fmt.Sprintf("%d: %v", line, p))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// object returns five lines of envelope, then the spec, which tests indent like their own code.
func object(kind, spec string) []byte {
	body := strings.ReplaceAll(strings.Trim(spec, "\n\t"), "\t", "")
	return []byte("apiVersion: networking.istio.io/v1\nkind: " + kind + "\nmetadata:\n  name: test\nspec:\n  " +
		strings.ReplaceAll(body, "\n", "\n  "))
}
