package main

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/agent/identity"
)

// A derived value is printed if none was given, and the settings do not change.
func TestPrint(t *testing.T) {
	s := resolved(t, nil, "--id", "mine")
	var before, out, after strings.Builder
	if err := s.table().Effective(&before, s.origins); err != nil {
		t.Fatal(err)
	}
	if err := s.print(&out, []identity.Derived{{Setting: "ip", Value: "10.0.0.7", How: "a guess"}, {Setting: "id", Value: "other", How: "a guess"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10.0.0.7 ", " a guess\n", "mine ", " flag --id\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
	if err := s.table().Effective(&after, s.origins); err != nil || after.String() != before.String() {
		t.Errorf("the settings have changed, %v:\n%s", err, after.String())
	}
}
