package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func newProxyConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "proxyconfig [-f FILE|DIR|-] [--meshConfig FILE] [--namespace NAME] [--labels KEY=VALUE,...] [--annotation TEXT]",
		Short: "Print the PROXY_CONFIG of a workload",
		Long: "Joins what is said of a workload's proxy as Istio's injector does, and prints it as one line of JSON, for the variable\n" +
			"PROXY_CONFIG of its agent. The first goes before the others: the ProxyConfig object that selects its labels, the annotation\n" +
			"proxy.istio.io/config, the object of its namespace, that of the root namespace, and defaultConfig of MeshConfig.",
		Example: "  PROXY_CONFIG=$(discovery proxyconfig -f mesh/ --meshConfig mesh.yaml --namespace shop --labels app=reviews) agent proxy",
		Args:    noArgs,
	}
	paths := cmd.Flags().StringArrayP("filename", "f", nil, "file or directory with ProxyConfig objects, - for standard input; repeatable")
	meshFile := cmd.Flags().String("meshConfig", "", "file of Istio's MeshConfig")
	namespace := cmd.Flags().String("namespace", "default", "namespace of the workload")
	labels := cmd.Flags().StringToString("labels", nil, "labels of the workload")
	annotation := cmd.Flags().String("annotation", "", "text of the annotation proxy.istio.io/config")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(*paths) == 0 && *meshFile == "" && *annotation == "" {
			return setting.Usage("discovery", errors.New("nothing is given: want --filename, --meshConfig or --annotation"))
		}
		mesh, err := meshOf(cmd, *paths, *meshFile)
		if err != nil {
			return err
		}
		text, err := config.ProxyConfigText(mesh, *namespace, *labels, *annotation)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	}
	return cmd
}

// meshOf returns the mesh of files for what they set for proxies, and prints their problems.
func meshOf(cmd *cobra.Command, paths []string, meshFile string) (*model.Mesh, error) {
	mesh, problems, err := plane.MeshOfFiles(paths, meshFile, cmd.InOrStdin())
	for _, p := range problems {
		cmd.PrintErrln(p)
	}
	return mesh, err
}
