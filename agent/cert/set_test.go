package cert

import (
	"errors"
	"testing"
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
