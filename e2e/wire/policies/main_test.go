//go:build wire

package policies

import (
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Suite{Name: "e2e/wire/policies"}) }
