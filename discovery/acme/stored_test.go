package acme

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What is kept of a set, and what a replica reports, stay as they are when a field is renamed in Go.
func TestStoredForms(t *testing.T) {
	t.Run("record", func(t *testing.T) { golden.Stored(t, golden.Filled[Record]()) })
	t.Run("reports", func(t *testing.T) { golden.Stored(t, golden.Filled[map[string]Report]()) })
}
