package ask

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/debugclient"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// Explain asks a running discovery what becomes of a request, and prints that. Flags of settings that it has itself are refused.
func Explain(cmd *cobra.Command, q explain.Question, way *Way, output *subcommand.Output) error {
	for _, name := range []string{"meshConfig", "networksConfig", "domain", "loopbackEndpoints"} {
		if cmd.Flags().Changed(name) {
			return setting.Usage("discovery", fmt.Errorf("--%s without --configDir: a running discovery has its own", name))
		}
	}
	at, err := way.at(cmd)
	if err != nil {
		return err
	}
	road, err := debugclient.Explain(cmd.Context(), at, q)
	if err != nil {
		return fmt.Errorf("ask discovery to explain: %w", err)
	}
	return output.Print(cmd.OutOrStdout(), road, road.Text())
}
