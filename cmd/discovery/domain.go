package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// domainSetting is the setting of the DNS domain of the mesh's services.
func domainSetting(to *model.Domain) setting.Setting {
	return setting.Setting{
		Name: "domain", Default: model.DefaultDomain.String(),
		Kind: setting.Parsed(to, "text", "a DNS domain without NAMESPACE.svc before it", model.ParseDomain).Such(model.DefaultDomain.String()),
		Help: "DNS domain of the cluster's services, which are NAME.NAMESPACE.svc.DOMAIN: of those of --registries Kubernetes, with all further clusters, " +
			"of --configDir, and of short names in objects; a sidecar needs the domain NAMESPACE.svc.DOMAIN, which injection gives it",
	}
}

// domainFlag is the flag of that name of the other commands.
type domainFlag struct{ model.Domain }

func (f *domainFlag) Type() string { return "text" }

func (f *domainFlag) Set(text string) (err error) {
	f.Domain, err = model.ParseDomain(text)
	return err
}

// addDomain adds the flag to a command.
func addDomain(cmd *cobra.Command, help string) *domainFlag {
	f := &domainFlag{model.DefaultDomain}
	cmd.Flags().Var(f, "domain", help)
	return f
}
