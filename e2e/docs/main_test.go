package docs

import (
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Suite{Name: "e2e/docs"}) }

func TestFirstSteps(t *testing.T)      { followed(t, "docs/first-steps.md") }
func TestAgentAlone(t *testing.T)      { followed(t, "docs/agent-alone.md") }
func TestUpgrading(t *testing.T)       { followed(t, "docs/upgrading.md") }
func TestTroubleshooting(t *testing.T) { followed(t, "docs/troubleshooting.md") }

// followed follows a page where its addresses and ports are its own.
func followed(t *testing.T, page string) {
	t.Helper()
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) { lab.Follow(t, page) })
}
