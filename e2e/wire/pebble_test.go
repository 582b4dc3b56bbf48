//go:build wire

package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// issuerFlags are those of the page, with Pebble instead of the public issuer, for the gateways of default/gw.
func issuerFlags(t *testing.T, p *lab.Pebble) []string {
	t.Helper()
	typed := strings.Fields(lab.Command(t, "docs/certificates.md", "--acmeIssuer"))
	flags := typed[slices.Index(typed, "--acmeIssuer"):]
	if len(flags) != 4 || flags[2] != "--acmeGateways" {
		t.Fatalf("the page ends with %q, want --acmeIssuer and --acmeGateways", flags)
	}
	return []string{flags[0], p.Issuer(flags[1]), flags[2], "default/gw"}
}
