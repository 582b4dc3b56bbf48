package kubernetes

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What is kept of an account stays as it is when a field is renamed in Go.
func TestStoredAccount(t *testing.T) { golden.Stored(t, golden.Filled[account]()) }
