package envoytools_test

import (
	"os/exec"
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// docs/cli/pod-init.md is the script's own help.
func TestPodInitPage(t *testing.T) {
	help, err := exec.CommandContext(t.Context(), "./pod-init", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	golden.Document(t, "../docs/cli/pod-init.md", "<!-- Made from the command's own help by make golden. -->\n# pod-init\n\n"+
		"Redirect the TCP traffic of a network namespace through its sidecar.\n\n```\n"+string(help)+"```\n")
}
