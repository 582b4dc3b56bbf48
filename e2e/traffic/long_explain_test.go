//go:build long

package traffic

import "testing"

// The comparisons of make test with more requests.
func TestLongExplainIsTrue(t *testing.T) {
	t.Run("sidecar", func(t *testing.T) { explainSidecar(t, 10_000) })
	t.Run("gateways", func(t *testing.T) { explainGateways(t, 3000) })
}
