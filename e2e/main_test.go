package e2e

import (
	"os"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Where the programs under test and Envoy are.
var bin, envoy string

func TestMain(m *testing.M) { os.Exit(lab.Run(m, &bin, &envoy)) }
