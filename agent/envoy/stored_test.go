package envoy

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// The record in the lock file of a slot stays as it is when a field is renamed in Go.
func TestStoredRecord(t *testing.T) { golden.Stored(t, golden.Filled[record]()) }
