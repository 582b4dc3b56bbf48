package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/setting"
)

const loopbackEndpoints = "loopbackEndpoints"

// loopbackSetting is the setting of a mesh whose programs are all on one machine.
func loopbackSetting(to *bool) setting.Setting {
	return setting.Setting{
		Name: loopbackEndpoints, Default: "false", Kind: setting.Bool(to),
		Help: "the whole mesh is on one machine: endpoints at loopback addresses such as 127.0.0.11 go to the proxies of every namespace, gateways too. " +
			"Otherwise they go to the sidecars of their own namespace alone, as Unix sockets and link-local addresses always do. 127.0.0.1, ::1 and " +
			"localhost never go to a gateway, and the ports and sockets of agents to no proxy",
	}
}

// addLoopback adds the flag of that name to another command.
func addLoopback(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool(loopbackEndpoints, false, "do not warn about endpoints that proxies get only where serve has this flag")
}
