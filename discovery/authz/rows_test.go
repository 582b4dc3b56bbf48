package authz_test

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/authz/authztest"
)

// Each condition, by the rules that are made of it. e2e/policies has the real Envoy judge the same rows.
func TestRows(t *testing.T) {
	for _, row := range authztest.Rows(t, "testdata/rows.yaml") {
		t.Run(row.Name, func(t *testing.T) {
			guard := authz.Of(row.Read(t), authz.Proxy{TrustDomains: []string{"cluster.local", "alias.test"}})
			for want, requests := range map[bool][]authztest.Request{true: row.Allow, false: row.Deny} {
				for _, r := range requests {
					if got := authztest.Allowed(guard, r.Whole()); got != want {
						t.Errorf("%+v is let in: %t, want %t, by %v", r.Whole(), got, want, guard)
					}
				}
			}
		})
	}
}
