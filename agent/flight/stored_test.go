package flight

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// A flight record stays as it is when a field is renamed in Go.
func TestStoredRecord(t *testing.T) { golden.Stored(t, golden.Filled[Record]()) }
