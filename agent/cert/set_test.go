package cert

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A certificate that has not been checked yet is not good.
func TestCertificateFault(t *testing.T) {
	files := Files{Chain: "/certs/chain.pem", Key: "/certs/key.pem", Roots: "/certs/roots.pem"}
	for _, test := range []struct {
		name             string
		optional, absent bool
		seen             *Observation
		want             string
	}{
		{"not looked at", false, false, nil, "the certificates in /certs have not been looked at yet"},
		{"not looked at, a default directory", true, false, nil, "the certificates in /certs have not been looked at yet"},
		{"there is no default directory", true, true, nil, ""},
		{"good", false, false, &Observation{}, ""},
		{"of no use", true, false, &Observation{Err: errors.New("key.pem: is empty")}, "key.pem: is empty"},
		{"one is missing", true, false, &Observation{Missing: []string{"/certs/key.pem"}}, "missing: /certs/key.pem"},
		{"a default directory without any", true, false, &Observation{Missing: files.Paths()}, ""},
		{
			"a directory that was named without any", false, false, &Observation{Missing: files.Paths()},
			"missing: /certs/chain.pem, /certs/key.pem, /certs/roots.pem",
		},
	} {
		set := Set{Files: files, Optional: test.optional}
		set.absent.Store(test.absent)
		set.seen.Store(test.seen)
		if got := set.Fault(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// What was good before a fault is held on to by an Envoy that has read it.
func TestHeld(t *testing.T) {
	set := &Set{Files: Files{Chain: "/certs/chain.pem", Key: "/certs/key.pem"}}
	at := func(second int) time.Time { return now.Add(time.Duration(second) * time.Second) }
	good := func(serial string) *Observation {
		return &Observation{Infos: []Info{{Serial: serial, NotAfter: at(3600), Ends: at(1800)}}}
	}
	bad := &Observation{Infos: []Info{{}}, Err: errors.New("key.pem: is empty")}
	held := func(from time.Time) string {
		if h := set.Held(from); h != nil {
			return h.Serial
		}
		return ""
	}
	for i, step := range []struct {
		seen *Observation
		want string // held by the agent, and by an Envoy of second 1
		late string // held by an Envoy of second 5
	}{
		{bad, "", ""},
		{good("01"), "", ""},
		{good("02"), "", ""},
		{bad, "02", ""}, // at second 3
		{&Observation{Missing: set.Paths()}, "02", ""},
		{good("03"), "", ""},
		{bad, "03", "03"},
	} {
		set.observed(step.seen, at(i))
		if got, late := held(at(1)), held(at(5)); got != step.want || late != step.late || held(time.Time{}) != step.want {
			t.Errorf("step %d: held %q and %q, want %q and %q", i, got, late, step.want, step.late)
		}
	}
	if got := (Sets{set}).Held(time.Time{}); !got.Equal(at(1800)) {
		t.Errorf("what is held ends at %s, want the end of the chain's issuer, %s", got, at(1800))
	}
	if got := (Sets{set, {Optional: true}}).Held(time.Time{}); !got.IsZero() {
		t.Errorf("beside a set that was never good, something is held until %s", got)
	}
}

// A server may have no roots, and no certificates for other programs.
func TestWithoutRoots(t *testing.T) {
	files := Files{Chain: "/certs/chain.pem", Key: "/certs/key.pem", Roots: "/certs/roots.pem"}
	leaf := issue(t, "leaf", nil, ecKey(t), nil)
	for _, test := range []struct {
		name           string
		files          disk
		optional, none bool
		fault          string
	}{
		{"chain and key", disk{files.Chain: leaf.pem(), files.Key: pkcs8(t, leaf.key)}, false, false, ""},
		{"a key of another", disk{files.Chain: leaf.pem(), files.Key: pkcs8(t, ecKey(t))}, false, false, "private key: is not the key"},
		{"the roots alone", disk{files.Roots: leaf.pem()}, true, true, ""},
		{"nothing", disk{}, true, true, ""},
		{"no key", disk{files.Chain: leaf.pem()}, true, false, "missing: /certs/key.pem"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := &Set{Files: files, Optional: test.optional, NoRoots: true}
			loop := Loop{Sets: []Files{files}, Optional: set.Optional, NoRoots: true, read: test.files.read}
			seen := loop.look(now)
			set.observed(&seen, now)
			if fault := set.Fault(); !strings.Contains(fault, test.fault) || (fault == "") != (test.fault == "") || set.None() != test.none {
				t.Errorf("fault %q, none %v; want %q, %v", fault, set.None(), test.fault, test.none)
			}
		})
	}
}
