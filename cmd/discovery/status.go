package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/client"
	"github.com/pilotlight/pilotlight/discovery/overview"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// door is what the help of a command says about the way to a discovery that runs elsewhere.
const door = `
It asks the pages of discovery, which answer programs on its host only: run it there, or through kubectl port-forward deploy/discovery 8080.`

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [PROXY]",
		Short: "Print the connected proxies with their states, refusals and notes",
		Long: `Print the connected proxies, the worst first: role, identity of the certificate, version, and for each type of resource whether the proxy
is SYNCED, STALE (behind) or NACKED (it refuses the last one, and uses the one before). Below, what each refuses, in its own words, and
the notes about it. PROXY is a node ID, a name, or NAMESPACE/NAME.` + "\n" + door,
		Example: "  discovery status\n  discovery status shop/reviews-1 -o json",
		Args:    subcommand.Count(0, 1, "PROXY or none"),
	}
	output, address := subcommand.AddOutput(cmd), addHTTPAddr(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := client.Proxies(cmd.Context(), *address)
		if err != nil {
			return fmt.Errorf("ask for the status of proxies: %w", err)
		}
		all, err := overview.Read(text, append(args, "")[0])
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), all, overview.Text(all, time.Now()))
	}
	return cmd
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config NODE [clusters|endpoints|listeners|routes|secrets]",
		Short: "Print the resources that discovery has sent to a proxy",
		Long: `Print type and name of each resource that discovery sent last to a proxy that is connected; with -o json the resources, of secrets the name and
version only. NODE is a node ID, or the name in it, as discovery status prints it. What Envoy itself has is on its agent's port:
curl 127.0.0.1:15000/config_dump beside the proxy; the two are not compared here.` + "\n" + door,
		Example: "  discovery config reviews-1.shop clusters\n  discovery config reviews-1.shop routes -o json",
		Args:    subcommand.Count(1, 2, "NODE, or NODE and a type"), ValidArgs: overview.Types(),
	}
	output, address := subcommand.AddOutput(cmd), addHTTPAddr(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		only := append(args, "")[1]
		if err := overview.CheckType(only); err != nil {
			return usage(err)
		}
		text, err := client.Config(cmd.Context(), *address, args[0])
		if err != nil {
			return fmt.Errorf("ask for the configuration of %s: %w", args[0], err)
		}
		all, names, err := overview.ReadResources(text, only)
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), all, names)
	}
	return cmd
}
