package page

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What the page's script reads keeps its words when a field is renamed in Go.
func TestDataNamesItsFields(t *testing.T) { golden.Tagged[Data](t) }
