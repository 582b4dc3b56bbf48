package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func newInject() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inject -f FILE|DIR|- [--config FILE] [--template FILE] [--meshConfig FILE] [--proxyConfig FILE|DIR]",
		Short: "Put the sidecar into the workloads of a manifest",
		Long: "Reads Pods, Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs, CronJobs and Lists of them, and prints them with the sidecar\n" +
			"that the webhook would put into their Pods. All else is printed as it is. On stderr it says which workload is not injected and why, and\n" +
			"which annotation has no effect. Injecting again changes nothing. On an error it prints nothing and exits 1.\n" +
			"The webhook also joins what MeshConfig's defaultConfig and ProxyConfig objects set, as discovery proxyconfig does: here --meshConfig and\n" +
			"--proxyConfig name their files.",
		Example: "  discovery inject -f deployment.yaml | kubectl apply -f -\n" +
			"  kubectl -n mesh get configmap injection -o jsonpath='{.data.config}' > config.yaml; discovery inject -f app.yaml --config config.yaml",
		Args: noArgs,
	}
	paths := cmd.Flags().StringArrayP("filename", "f", nil, "file or directory of manifests to inject, - for standard input; repeatable")
	config := cmd.Flags().String("config", "", "file of what the key config of the webhook's ConfigMap holds; if empty, the defaults")
	template := cmd.Flags().String("template", "", "file of what the key template of the webhook's ConfigMap holds; if empty, the one that is built in")
	namespace := cmd.Flags().StringP("namespace", "n", "default", "namespace of objects that name none")
	domain := addDomain(cmd, "DNS domain of the cluster's services, as serve has it; --config may name it too, as clusterDomain, and beats it")
	meshFile := cmd.Flags().String("meshConfig", "", "file of Istio's MeshConfig, whose defaultConfig counts for all proxies")
	objects := cmd.Flags().StringArray("proxyConfig", nil, "file or directory with ProxyConfig objects, - for standard input; repeatable")
	native := cmd.Flags().Bool("nativeSidecar", true, "make the sidecar an init container that stays, for clusters since 1.29; --config may say it too, and beats it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(*paths) == 0 {
			return setting.Usage("discovery", errors.New("--filename is missing: want a file or -"))
		}
		i, err := plane.Injector(*config, *template, domain.String(), *native)
		if err != nil {
			return err
		}
		for _, doubt := range i.Doubts() {
			cmd.PrintErrln(doubt)
		}
		if slices.Contains(*paths, "-") && slices.Contains(*objects, "-") {
			return setting.Usage("discovery", errors.New("--filename and --proxyConfig are both -, want standard input for one of them"))
		}
		layers, problems, err := plane.LayersOfFiles(*objects, *meshFile, cmd.InOrStdin())
		for _, p := range problems {
			cmd.PrintErrln(p)
		}
		if err != nil {
			return err
		}
		text, err := file.Stream(*paths, cmd.InOrStdin())
		if err != nil {
			return err
		}
		out, notes, err := i.Manifest(text, *namespace, layers)
		for _, n := range notes {
			cmd.PrintErrln(n)
		}
		if err != nil {
			return err
		}
		if _, err := cmd.OutOrStdout().Write(out); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	return cmd
}
