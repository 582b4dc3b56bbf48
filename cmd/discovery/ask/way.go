package ask

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/debugclient"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// Way is how a discovery is reached: on this host, or elsewhere at its secure port.
type Way struct {
	here, afar, name string
	files            debugclient.Files
}

// AddWay adds the flags of a Way.
func AddWay(cmd *cobra.Command) *Way {
	w := &Way{}
	cmd.Flags().StringVar(&w.here, "httpAddr", "127.0.0.1:8080", "the address of discovery's pages on this host")
	cmd.Flags().StringVar(&w.afar, "discoveryAddress", "", "HOST:PORT of the secure port of a discovery elsewhere, its --secureGRPCAddr; needs the three files")
	cmd.Flags().StringVar(&w.files.Cert, "tlsCertFile", "", "certificate of the root namespace to show there, with those between it and a root, PEM")
	cmd.Flags().StringVar(&w.files.Key, "tlsKeyFile", "", "its private key, PEM")
	cmd.Flags().StringVar(&w.files.Roots, "caCertFile", "", "roots of discovery's certificate, PEM")
	cmd.Flags().StringVar(&w.name, "discoveryName", "", "what discovery's certificate is for, a DNS name, an address, or spiffe://…; by default HOST of --discoveryAddress")
	return w
}

// ExampleAfar is an example of a command that asks a discovery elsewhere.
func ExampleAfar(command string) string {
	return "  discovery " + command + " --discoveryAddress discovery.example:15012 --tlsCertFile cert-chain.pem --tlsKeyFile key.pem --caCertFile root-cert.pem"
}

// at returns where to ask. Flags that contradict each other, or lack one, are refused.
func (w *Way) at(cmd *cobra.Command) (debugclient.At, error) {
	files := []string{"tlsCertFile", "tlsKeyFile", "caCertFile"}
	if w.afar == "" {
		for _, name := range append(files, "discoveryName", "discoveryAddress") {
			if cmd.Flags().Changed(name) {
				return debugclient.At{}, setting.Usage("discovery", fmt.Errorf("--%s without an address in --discoveryAddress: the pages on this host take no certificate", name))
			}
		}
		return debugclient.Here(w.here), nil
	}
	var faults []error
	if cmd.Flags().Changed("httpAddr") {
		faults = append(faults, errors.New("--httpAddr and --discoveryAddress: want one of them"))
	}
	for _, name := range files {
		if cmd.Flags().Lookup(name).Value.String() == "" {
			faults = append(faults, fmt.Errorf("--%s is missing: the secure port shows the mesh to a certificate of the root namespace only", name))
		}
	}
	if len(faults) > 0 {
		return debugclient.At{}, setting.Usage("discovery", faults...)
	}
	at, err := debugclient.Afar(w.afar, w.name, w.files)
	if err != nil {
		return debugclient.At{}, fmt.Errorf("ask at --discoveryAddress: %w", err)
	}
	return at, nil
}

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
