package ca

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What is kept of an authority stays as it is when a field is renamed in Go.
func TestStoredForms(t *testing.T) {
	t.Run("copy", func(t *testing.T) { golden.Stored(t, golden.Filled[Copy](Trust)) })
	t.Run("rotation", func(t *testing.T) { golden.Stored(t, golden.Filled[Rotation](Leaves)) })
	t.Run("tokens", func(t *testing.T) { golden.Stored(t, golden.Filled[Tokens]()) })
	t.Run("phases", func(t *testing.T) { golden.Stored(t, []Phase{Begun, Trust, Leaves, Forget}) })
}
