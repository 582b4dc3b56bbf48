package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/cmd/discovery/remote"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// validateOptions is what validate is given.
type validateOptions struct {
	file.Paths
	registries []string
	domains    plane.Domains
	strict     bool
	live       bool
	way        *remote.Way
}

// table has the settings of serve that say what its registries may have.
func (v *validateOptions) table() setting.Table {
	return setting.Table{Settings: append([]setting.Setting{{
		Name: "registries", Kind: setting.List(&v.registries),
		Help: "registries that serve is given: services that they may have, and with Kubernetes namespaces and Pods, are not missed; the output names these. " +
			"Without it, the services are those of the files, to which kubectl can add a cluster's: " + strings.Join(plane.Registries(), ", "),
	}}, domainSettings(&v.domains)...)}
}

func newValidate() *cobra.Command {
	var v validateOptions
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR|-... [--registries LIST] [--meshConfig FILE] [--networksConfig FILE]",
		Short: "Say what is wrong with configuration, a line for each fault",
		Long: "Reads Istio objects, and those of Kubernetes that serve reads, as serve does and prints a line \"FILE:LINE: error: REASON\" for each fault.\n" +
			"Warnings name what serve would ignore, and what does not do what it seems to. Exits 1 on an error.\n\n" +
			"With --live a running discovery judges the files, as if it served them too: hosts, services, workloads and endpoints of all its registries and stores are known,\n" +
			"and so are the proxies that are connected. An object replaces the one of its name there. Warnings about these objects, about proxies of their namespaces, and\n" +
			"about others that only these files cause are printed. Nothing is written, and nothing is served.\n" + remote.Door,
		Example: "  discovery validate mesh/\n  discovery validate mesh/ --registries Kubernetes\n" +
			"  kubectl get services,endpointslices -A -o yaml | discovery validate mesh/ -\n" +
			"  discovery validate --live mesh/\n" + remote.ExampleAfar("validate --live mesh/"),
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringArrayVarP(&v.Objects, "filename", "f", nil, "file or directory to validate, - for standard input, as an argument is; repeatable")
	cmd.Flags().StringVar(&v.MeshConfig, "meshConfig", "", "file of Istio's MeshConfig to validate, and to judge the objects by")
	cmd.Flags().StringVar(&v.MeshNetworks, "networksConfig", "", "file of Istio's MeshNetworks to validate")
	cmd.Flags().BoolVar(&v.strict, "strict", false, "fail on warnings as well")
	cmd.Flags().BoolVar(&v.live, "live", false, "have a running discovery judge the files, beside what it serves and for the proxies that are connected to it")
	v.way = remote.AddWay(cmd)
	domain := addDomain(cmd, "DNS domain of the cluster's services, as serve has it: short names stand for services of it")
	loopback := addLoopback(cmd)
	class := cmd.Flags().String("ingressClass", "", "class of Ingresses that serve is given, to name those that it would not serve; if empty, those of every class are judged")
	output := subcommand.AddOutput(cmd)
	var given setting.Flags
	given.Register(cmd.Flags(), v.table())
	cmd.Flags().SortFlags = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v.Objects = append(v.Objects, args...)
		_, wrong := v.table().Resolve(setting.Sources{Flags: given.Given})
		if err := setting.Usage("discovery", wrong.WrappedErrors()...); err != nil {
			return err
		}
		for _, name := range v.registries {
			if !slices.Contains(plane.Registries(), name) {
				return setting.Usage("discovery", fmt.Errorf("--registries is %q, want one or more of %s", name, strings.Join(plane.Registries(), ", ")))
			}
		}
		if len(v.Objects) == 0 && v.MeshConfig == "" && v.MeshNetworks == "" {
			return setting.Usage("discovery", errors.New("a path, or --filename is missing: want a file, a directory or -"))
		}
		if err := remote.CheckLive(cmd, v.live, "live", "filename", "strict", "output"); err != nil {
			return err
		}
		read, err := v.ReadFiles(cmd.InOrStdin())
		if err != nil {
			return err
		}
		here := validation.Mesh{
			Settings:     model.Settings{Domain: domain.Domain, LoopbackEndpoints: *loopback},
			IngressClass: *class, Elsewhere: v.domains.Elsewhere(domain.Domain, v.registries),
		}
		verdict, err := v.judge(cmd, here, read)
		if err != nil {
			return err
		}
		if err := output.Print(cmd.OutOrStdout(), verdict, verdict.Text()); err != nil {
			return err
		}
		if rest := verdict.Rest(); rest != "" && *output == subcommand.Text {
			cmd.PrintErrln(rest)
		}
		if verdict.Bad(v.strict) {
			return errors.New(verdict.Summary())
		}
		if *output == subcommand.Text {
			cmd.PrintErrln(verdict.Summary())
		}
		return nil
	}
	return cmd
}

// judge returns the verdict of this program, or of a running discovery. If that does not answer, the faults of the files alone are printed.
func (v *validateOptions) judge(cmd *cobra.Command, here validation.Mesh, read file.Contents) (validation.Verdict, error) {
	if !v.live {
		return here.Judge(read.Objects, read.Problems), nil
	}
	var texts []validation.Text
	for _, f := range read.Files {
		t := validation.Text{Name: f.Name, Data: f.Data}
		if f.Err != nil {
			t.Error = f.Err.Error()
		}
		texts = append(texts, t)
	}
	verdict, err := remote.Validate(cmd, v.way, texts)
	if err != nil {
		for _, p := range read.Problems {
			cmd.PrintErrln(p)
		}
		return validation.Verdict{}, err
	}
	verdict.Problems = append(verdict.Problems, read.Empty...)
	return verdict, nil
}
