package lastgood

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// The header of a file stays as it is when a field is renamed in Go.
func TestStoredHeader(t *testing.T) { golden.Stored(t, golden.Filled[Header]()) }
