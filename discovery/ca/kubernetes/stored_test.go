package kubernetes

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What a replica reports stays as it is when a field is renamed in Go.
func TestStoredReports(t *testing.T) { golden.Stored(t, golden.Filled[map[string]report]()) }
