package status

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/golden"
)

// A page for programs keeps its words when a field is renamed in Go.
func TestPagesNameTheirFields(t *testing.T) {
	golden.Tagged[service](t)
	golden.Tagged[registered](t)
	golden.Tagged[object](t)
	golden.Tagged[note](t)
	golden.Tagged[syncState](t)
	golden.Tagged[ads.Client](t)
	golden.Tagged[ads.Push](t)
	golden.Tagged[proxystatus.Proxy](t)
	golden.Tagged[explain.Road](t)
	golden.Tagged[validation.Verdict](t)
	golden.Tagged[validation.Text](t)
}
