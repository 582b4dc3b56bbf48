package ask

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/debugclient"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// Release returns the command that ends the hold of a source.
func Release() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release SOURCE",
		Short: "Let discovery remove what a source has lost at once",
		Long: `If most hosts of a source are gone at once, which may be an accident, discovery serves them for --wipeDelay and logs an error;
/ready?verbose names them. This command, on the host of discovery, ends that time: what the source has counts.
The policies of a directory that is left without any object have no such time: they stay until they are back, or until this command.

A proxy that comes back to a discovery that knows nothing of a source keeps what it has until the source is whole: "release SOURCE" ends
that. One that would lose most of its clusters keeps them for --wipeDelay: "release proxies" ends that.`,
		Example: "  discovery release Consul\n  kubectl exec -n istio-system deploy/discovery -- discovery release Kubernetes",
		Args:    subcommand.Count(1, 1, "SOURCE, as /debug/sources names it"),
	}
	address := Address(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		said, err := debugclient.Release(cmd.Context(), *address, args[0])
		if err != nil {
			return fmt.Errorf("release %s: %w", args[0], err)
		}
		cmd.Println(said)
		return nil
	}
	return cmd
}

// Address adds the flag of the commands that ask a running discovery.
func Address(cmd *cobra.Command) *string {
	return cmd.Flags().String("httpAddr", "127.0.0.1:8080", "the address of discovery's pages on this host")
}
