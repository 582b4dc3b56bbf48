package node

import (
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       ID
		fault      string // part of the error, empty for none
	}{
		{
			"Kubernetes", "sidecar~10.1.2.3~reviews-1.default~default.svc.cluster.local",
			ID{Sidecar, "10.1.2.3", "reviews-1.default", "default.svc.cluster.local"},
			"",
		},
		{"IPv6, no domain", "sidecar~2001:db8::1~vm-1~", ID{Sidecar, "2001:db8::1", "vm-1", ""}, ""},
		{"a router needs no address", "router~~gateway.istio-system~x", ID{Router, "", "gateway.istio-system", "x"}, ""},
		{"too few parts", "sidecar~10.1.2.3~reviews", ID{}, "has 3 parts, want 4: type~ip~id~domain"},
		{"too many parts", "sidecar~10.1.2.3~reviews~x~y", ID{}, "has 5 parts, want 4"},
		{"empty", "", ID{}, "has 1 parts, want 4"},
		{"unknown role", "proxy~10.1.2.3~reviews~x", ID{}, `role "proxy": want sidecar, ingress or router`},
		{"roles have one spelling", "Sidecar~10.1.2.3~reviews~x", ID{}, `role "Sidecar"`},
		{"a sidecar's address", "sidecar~localhost~reviews~x", ID{}, `ip "localhost": want an IPv4 or IPv6 address`},
		{"no name", "sidecar~10.1.2.3~~x", ID{}, "id is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseID(test.text)
			switch {
			case test.fault == "" && (err != nil || got != test.want || got.String() != test.text):
				t.Errorf("ParseID: got %+v, %v; want %+v, and the same text again", got, err, test.want)
			case test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)):
				t.Errorf("ParseID: got error %v, want one with %q", err, test.fault)
			}
		})
	}
}

func TestValidateRefusesWhatCouldNotBeReadBack(t *testing.T) {
	id := ID{Sidecar, "10.1.2.3", "a~b", ""}
	if err := id.Validate(); err == nil || !strings.Contains(err.Error(), "must not contain ~") {
		t.Errorf("Validate(%+v): got %v, want a complaint about ~", id, err)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("sidecar~10.1.2.3~reviews-1.default~default.svc.cluster.local")
	f.Add("router~~~~")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if err != nil {
			return
		}
		if again, err := ParseID(id.String()); err != nil || again != id {
			t.Errorf("ParseID(%q): %+v; read back: %+v, %v", text, id, again, err)
		}
	})
}
