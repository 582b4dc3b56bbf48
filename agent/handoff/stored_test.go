package handoff

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What one image says to another stays as it is when a field is renamed in Go.
func TestStoredForms(t *testing.T) {
	t.Run("envelope", func(t *testing.T) { golden.Stored(t, golden.Filled[envelope]()) })
	t.Run("answer", func(t *testing.T) { golden.Stored(t, golden.Filled[Answer]()) })
}
