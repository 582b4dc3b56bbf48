package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/cmd/discovery/remote"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/heap"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

func newExplain() *cobra.Command {
	var q explain.Question
	var paths file.Paths
	cmd := &cobra.Command{
		Use: "explain [--configDir DIR] --from WORKLOAD|NODE --to HOST[:PORT]", Short: "Say what becomes of one request, and which objects decide it",
		Long: "Builds what serve would send to the proxy of a workload, judges one request by it as Envoy does, and prints its road: listener, filter chain, virtual\n" +
			"host, the routes that do not match and why, the one that does, filters, clusters, endpoints with TLS, and the outcome. Objects are named with file\n" +
			"and line. The same is asked of the proxy of an endpoint with a service account: TLS of both sides, and policies. What only a running Envoy knows,\n" +
			"such as a dead server, an ejected endpoint or an answer of DNS, is not judged. A token is read, not checked: its issuer, audiences and claims count,\n" +
			"not its signature and times. A workload with a service account has a certificate of the mesh; of a node --meta says it.\n\n" +
			"With --configDir it reads files alone. Without it a running discovery is asked, with the services of all registries; what connected proxies have\n" +
			"said of themselves then counts for both sides.\n" + remote.Door,
		Example: "  discovery explain --from shop/web --to reviews:9080\n  discovery explain --configDir mesh/ --from shop/web --to reviews:9080 --path /private --header end-user=jason", Args: noArgs,
	}
	cmd.Flags().StringArrayVar(&paths.Objects, "configDir", nil, "directory, or file, of objects as serve reads them, - for standard input; repeatable; without it a running discovery is asked")
	cmd.Flags().StringVar(&paths.MeshConfig, "meshConfig", "", "file of Istio's MeshConfig, as serve has it")
	cmd.Flags().StringVar(&paths.MeshNetworks, "networksConfig", "", "file of Istio's MeshNetworks, as serve has it")
	cmd.Flags().StringVar(&q.From, "from", "", "who sends: NAMESPACE/NAME of a WorkloadEntry or Pod, its address or that of an endpoint, or the ID of a proxy's node")
	cmd.Flags().StringToStringVar(&q.Metadata, "meta", nil, "metadata of the proxy's node by Istio's keys: INTERCEPTION_MODE=NONE,HTTP_PROXY_PORT=15080")
	cmd.Flags().StringToStringVar(&q.ServerMetadata, "server-meta", nil, "the same of the proxies of the endpoints, which are asked even if no service account says that they are there")
	cmd.Flags().StringVar(&q.To, "to", "", "HOST[:PORT] as the program names it; port 80 if it names none")
	cmd.Flags().StringVar(&q.Address, "address", "", "address to which the program connects, with a port where it is not that of --to; if empty, the one that the host has in the mesh")
	cmd.Flags().StringVar(&q.Method, "method", "GET", "method of the request")
	cmd.Flags().StringVar(&q.Path, "path", "/", "its path, with the query")
	cmd.Flags().StringArrayVar(&q.Header, "header", nil, "a header of it, NAME=VALUE or NAME:VALUE; repeatable")
	cmd.Flags().BoolVar(&q.TCP, "tcp", false, "the program sends bytes that are not HTTP")
	cmd.Flags().BoolVar(&q.TLS, "tls", false, "the program begins TLS itself, with the host as server name, as clients of a gateway do; its certificate is not judged")
	way := remote.AddWay(cmd)
	domain, loopback, output := addDomain(cmd, "DNS domain of the cluster's services, as serve has it"), addLoopback(cmd), subcommand.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if q.From == "" || q.To == "" {
			return usage(errors.New("--from or --to is missing: want who sends, and the host"))
		}
		if len(paths.Objects) == 0 {
			return remote.Explain(cmd, q, way, output)
		}
		if cmd.Flags().Changed("discoveryAddress") {
			return usage(errors.New("--configDir and --discoveryAddress: want one of them"))
		}
		defer heap.Brief(os.Getenv)() // reading files makes much garbage, whose collection is a fifth of the time
		objects, problems, err := paths.Read(cmd.InOrStdin())
		if err != nil {
			return err
		}
		for _, p := range problems {
			if p.Severity == config.Error {
				cmd.PrintErrln(p) // such an object is not served, so the answer is without it
			}
		}
		mesh := validation.Mesh{Settings: model.Settings{Domain: domain.Domain, LoopbackEndpoints: *loopback}}
		road, err := q.Answer(mesh.Of(objects))
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), road, road.Text())
	}
	return cmd
}

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
