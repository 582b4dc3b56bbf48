package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// An agent that is older than discovery is named. Builds that are no releases, and agents that do not say their version, are not.
func TestNotesOfOldAgents(t *testing.T) {
	for _, test := range []struct {
		agent, discovery string
		want             bool
	}{
		{"v0.1", "v0.2.0", true}, // the release that did not say
		{"v0.1.9", "v0.2.0", true},
		{"v0.2.0", "v0.2.1", true},
		{"v0.9.0", "v0.10.0", true},
		{"v1.9.9", "v2.0.0", true},
		{"0.2.0", "v0.3.0", true}, // as an image may have it
		{"v0.2.0", "v0.2.0", false},
		{"v0.2.1", "v0.2.0", false},
		{"v1.0.0", "v0.9.9", false},
		{"v0.1", "v0.1.5", true}, // says less than it is; such a discovery does not exist
		{"", "v0.2.0", false},
		{"v0.2.0", "", false},
		{"(devel)", "v0.2.0", false},
		{"v0.2.0", "(devel)", false},
		{"v0.2.0-rc.1", "v0.2.0", false},
		{"v0.0.0-20261128114027-6ab796a2abcd", "v0.2.0", false},
		{"v0.1.1-0.20261128114027-6ab796a2abcd+dirty", "v0.2.0", false},
		{"v0.1.0+dirty", "v0.2.0", false},
		{"v0.1.0.1", "v0.2.0", false},
		{"v0", "v0.2.0", false},
		{"v-1.0.0", "v0.2.0", false},
		{"v99999999999999999999.0.0", "v0.2.0", false},
		{"v0.1.0\n", "v0.2.0", false},
	} {
		t.Run(test.agent+" "+test.discovery, func(t *testing.T) {
			m := NewOf(Settings{Release: test.discovery}, slices.Values([]Group{{}}))
			notes := m.Notes(Proxy{Namespace: "shop", Name: "p-1", Agent: Agent{Version: test.agent}})
			switch {
			case !test.want && len(notes) > 0:
				t.Errorf("got %+v, want nothing", notes)
			case !test.want:
			case len(notes) != 1 || notes[0].Code != OldAgent || notes[0].Meta.Key() != "Proxy/shop/p-1" ||
				!strings.Contains(notes[0].Message, "its agent is "+test.agent+", and discovery "+test.discovery) || !strings.Contains(notes[0].Message, "docs/upgrading.md"):
				t.Errorf("got %+v, want %s", notes, OldAgent)
			}
		})
	}
}

// A sidecar whose agent sees that its program is reached past Envoy is named, with the client and the port; text that is neither
// is left out.
func TestNotesOfMissingRedirections(t *testing.T) {
	for said, want := range map[string]string{
		"":                 "",
		"8080 10.0.0.7":    "10.0.0.7 reaches port 8080 of its program directly",
		"8080 fd00::7":     "fd00::7 reaches port 8080 of its program directly",
		"8080 fe80::1%a\n": "fe80::1 reaches port 8080 of its program directly",
		"8080":             "its program is reached directly",
		"70000 10.0.0.7":   "its program is reached directly",
		"\n evil":          "its program is reached directly",
	} {
		for name, w := range map[string]Proxy{"a sidecar": {}, "a gateway": {Gateway: true}, "one that binds": {Binds: true}, "gRPC": {Proxyless: true}} {
			w.Namespace, w.Name, w.Agent.Bypassed = "shop", "p-1", said
			notes := meshOf(nil).Notes(w)
			if want == "" || name != "a sidecar" {
				if len(notes) > 0 {
					t.Errorf("%s that says %q: got %+v, want nothing", name, said, notes)
				}
				continue
			}
			if len(notes) != 1 || notes[0].Code != NoRedirect || notes[0].Meta.Key() != "Proxy/shop/p-1" || !strings.Contains(notes[0].Message, want) ||
				!strings.Contains(notes[0].Message, "want the redirection there, by pod-init") || strings.Contains(fmt.Sprint(notes[0]), "evil") {
				t.Errorf("%s that says %q: got %+v, want %s with %q", name, said, notes, NoRedirect, want)
			}
		}
	}
}
