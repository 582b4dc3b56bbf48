package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/discovery/debugclient"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// Door is what the help of a command says about the way to a discovery that runs elsewhere.
const Door = `
It asks the pages of discovery, which answer programs on its host only: run it there, or through kubectl port-forward deploy/discovery 8080.
From elsewhere it asks the secure port at --discoveryAddress, with a certificate of the mesh's root namespace, as an agent has it in its --certDir.`

// Status returns the command that prints the connected proxies.
func Status() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [PROXY]",
		Short: "Print the connected proxies with their states, refusals and notes",
		Long: `Print the connected proxies, the worst first: role, identity of the certificate, version, and for each type of resource whether the proxy
is SYNCED, STALE (behind) or NACKED (it refuses the last one, and uses the one before). Below, what each refuses, in its own words, and
the notes about it. PROXY is a node ID, a name, or NAMESPACE/NAME.` + "\n" + Door,
		Example: "  discovery status\n  discovery status shop/reviews-1 -o json\n" + ExampleAfar("status"),
		Args:    subcommand.Count(0, 1, "PROXY or none"),
	}
	output, way := subcommand.AddOutput(cmd), AddWay(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := way.at(cmd)
		if err != nil {
			return err
		}
		text, err := debugclient.Proxies(cmd.Context(), at)
		if err != nil {
			return fmt.Errorf("ask for the status of proxies: %w", err)
		}
		all, err := proxystatus.Read(text, append(args, "")[0])
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), all, proxystatus.Text(all, time.Now()))
	}
	return cmd
}

// Config returns the command that prints what a proxy was sent.
func Config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config NODE [clusters|endpoints|listeners|routes|secrets]",
		Short: "Print the resources that discovery has sent to a proxy",
		Long: `Print type and name of each resource that discovery sent last to a proxy that is connected; with -o json the resources, of secrets the name,
version, serial number and hash only. NODE is NAMESPACE/NAME, as discovery status prints it, a node ID, or the name in that.

With --diff the resources are compared with what that Envoy has, which its agent tells at --agentAddr, to programs on its host only:
kubectl port-forward reviews-1 15000 brings it here. A line for each that differs, and one if the Envoy there is of another node; exit 1 if there is one.
Clusters, listeners and routes are compared field by field, of endpoints address, weight, locality, priority and health, of secrets certificate and roots,
without private keys.` + "\n" + Door,
		Example: "  discovery config reviews-1.shop clusters\n  discovery config reviews-1.shop --diff --agentAddr 127.0.0.1:15000",
		Args:    subcommand.Count(1, 2, "NODE, or NODE and a type"), ValidArgs: proxystatus.Types(),
	}
	output, way := subcommand.AddOutput(cmd), AddWay(cmd)
	diff := cmd.Flags().Bool("diff", false, "compare them with what the proxy's Envoy has")
	agent := cmd.Flags().String("agentAddr", "127.0.0.1:15000", "the port of the proxy's agent for reads of Envoy's admin, for --diff")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		only := append(args, "")[1]
		if err := proxystatus.CheckType(only); err != nil {
			return setting.Usage("discovery", err)
		}
		at, err := way.at(cmd)
		if err != nil {
			return err
		}
		text, err := debugclient.Config(cmd.Context(), at, args[0])
		if err != nil {
			return fmt.Errorf("ask for the configuration of %s: %w", args[0], err)
		}
		if *diff {
			return printDiff(cmd, at, args[0], only, *agent, text, output)
		}
		all, names, err := proxystatus.ReadResources(text, only)
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), all, names)
	}
	return cmd
}

// tries is how often what a proxy was sent is compared while that changes.
const tries = 3

// printDiff prints how what an Envoy has differs from what it was sent. Where that differs since, it is compared again.
func printDiff(cmd *cobra.Command, at debugclient.At, proxy, only, agent string, sent []byte, output *subcommand.Output) error {
	for n := 1; ; n++ {
		all, err := difference(cmd.Context(), proxy, only, agent, sent)
		if err != nil {
			return err
		}
		var now []byte
		if len(all) > 0 {
			if now, err = debugclient.Config(cmd.Context(), at, proxy); err != nil {
				return fmt.Errorf("ask for the configuration of %s: %w", proxy, err)
			}
		}
		moved := len(all) > 0 && !bytes.Equal(now, sent)
		if moved && n < tries {
			sent = now
			continue
		}
		if moved {
			cmd.PrintErrln("what discovery sends has changed meanwhile, a difference may be of that time")
		}
		return cmp.Or(output.Print(cmd.OutOrStdout(), all, all.Text()), all.Err())
	}
}

func difference(ctx context.Context, proxy, only, agent string, sent []byte) (proxystatus.Differences, error) {
	has, err := debugclient.Envoy(ctx, agent)
	if err != nil {
		return nil, fmt.Errorf("ask the agent at --agentAddr for what Envoy has: %w", err)
	}
	var clusters []byte
	if only == "" || only == "endpoints" {
		if clusters, err = debugclient.EnvoyClusters(ctx, agent); err != nil {
			return nil, fmt.Errorf("ask the agent at --agentAddr for the health of endpoints: %w", err)
		}
	}
	return proxystatus.Diff(proxy, sent, has, clusters, only)
}

// CheckLive refuses flags that contradict live, the flag with which a running discovery judges files: without it those of a Way, with it all but
// those and the given ones.
func CheckLive(cmd *cobra.Command, live bool, both ...string) (err error) {
	way := []string{"httpAddr", "discoveryAddress", "tlsCertFile", "tlsKeyFile", "caCertFile", "discoveryName"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(both, f.Name) || err != nil:
		case slices.Contains(way, f.Name) && !live:
			err = fmt.Errorf("--%s without --live: no discovery is asked", f.Name)
		case !slices.Contains(way, f.Name) && live:
			err = fmt.Errorf("--%s with --live: a running discovery has its own", f.Name)
		}
	})
	return setting.Usage("discovery", err)
}

// Validate has files judged by a running discovery.
func Validate(cmd *cobra.Command, way *Way, files []validation.Text) (v validation.Verdict, err error) {
	at, err := way.at(cmd)
	if err != nil {
		return v, err
	}
	text, err := validation.Sent(files)
	if err == nil {
		text, err = debugclient.Validate(cmd.Context(), at, text)
	}
	if err == nil {
		v, err = validation.ReadLive(text)
	}
	if err != nil {
		return v, fmt.Errorf("ask discovery to validate: %w", err)
	}
	return v, nil
}

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
