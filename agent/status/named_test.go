package status

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// A document of the status port keeps its words when a field is renamed in Go.
func TestDocumentsNameTheirFields(t *testing.T) {
	golden.Tagged[statusView](t)
	golden.Tagged[readyView](t)
	golden.Tagged[Why](t)
}
