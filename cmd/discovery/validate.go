package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func newValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate FILE|DIR|-... [--registries LIST] [--meshConfig FILE] [--networksConfig FILE]",
		Short: "Say what is wrong with configuration, a line for each fault",
		Long: "Reads Istio objects, and those of Kubernetes that serve reads, as serve does and prints a line \"FILE:LINE: error: REASON\" for each fault.\n" +
			"Warnings name what serve would ignore, and what does not do what it seems to. Exits 1 on an error.",
		Example: "  discovery validate mesh/\n  discovery validate mesh/ --registries Kubernetes\n" +
			"  kubectl get virtualservice reviews -o yaml | discovery validate -",
		Args: cobra.ArbitraryArgs,
	}
	paths := cmd.Flags().StringArrayP("filename", "f", nil, "file or directory to validate, - for standard input, as an argument is; repeatable")
	registries := cmd.Flags().StringSlice("registries", nil, "registries that serve is given: services, namespaces and Pods that the files do not have may be in them, "+
		"so nothing is said of those that are missing: "+strings.Join(plane.Registries(), ", "))
	settings := map[string]*string{
		"MeshConfig":   cmd.Flags().String("meshConfig", "", "file of Istio's MeshConfig to validate, and to judge the objects by"),
		"MeshNetworks": cmd.Flags().String("networksConfig", "", "file of Istio's MeshNetworks to validate"),
	}
	strict := cmd.Flags().Bool("strict", false, "fail on warnings as well")
	domain := addDomain(cmd, "DNS domain of the cluster's services, as serve has it: short names stand for services of it")
	loopback := addLoopback(cmd)
	class := cmd.Flags().String("ingressClass", "", "class of Ingresses that serve is given, to name those that it would not serve; if empty, those of every class are judged")
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*paths = append(*paths, args...)
		for _, name := range *registries {
			if !slices.Contains(plane.Registries(), name) {
				return setting.Usage("discovery", fmt.Errorf("--registries is %q, want one or more of %s", name, strings.Join(plane.Registries(), ", ")))
			}
		}
		if len(*paths) == 0 && *settings["MeshConfig"] == "" && *settings["MeshNetworks"] == "" {
			return setting.Usage("discovery", errors.New("a path, or --filename is missing: want a file, a directory or -"))
		}
		files, err := readAll(*paths, cmd.InOrStdin())
		if err != nil {
			return err
		}
		objects, problems := file.Check(files)
		if len(objects)+len(problems) == 0 && len(*paths) > 0 {
			return fmt.Errorf("%s: no object, want Istio's in files named *.yaml, *.yml or *.json", strings.Join(*paths, ", "))
		}
		for _, kind := range []string{"MeshConfig", "MeshNetworks"} {
			if path := *settings[kind]; path != "" {
				o, found := file.ReadSettings(kind, path)
				problems = append(problems, found...)
				if o != nil {
					objects = append(objects, o)
				}
			}
		}
		problems = withConfigMaps(problems, files)
		groups, found := understood(domain.Domain, objects, *class)
		problems = append(problems, found...)
		mesh := model.NewOf(model.Settings{Domain: domain.Domain, LoopbackEndpoints: *loopback}, slices.Values(groups))
		notes := mesh.Notes()
		if len(*registries) > 0 {
			notes = slices.DeleteFunc(notes, func(n model.Note) bool { return n.Code.OfAbsence() })
		}
		problems = append(problems, config.OfNotes(notes)...)
		verdict := verdict{Objects: len(objects), Problems: problems}
		if err := verdict.print(cmd.OutOrStdout(), *output); err != nil {
			return err
		}
		if config.HasErrors(problems) || *strict && len(problems) > 0 {
			return errors.New(verdict.summary())
		}
		if *output == outputText {
			cmd.PrintErrln(verdict.summary())
		}
		return nil
	}
	return cmd
}

// withConfigMaps adds the problems of ConfigMaps with settings of the mesh, which serve reads with --meshConfigMap, in the place of those
// that say that a ConfigMap is ignored.
func withConfigMaps(problems []config.Problem, files []file.File) []config.Problem {
	for _, f := range files {
		for _, found := range config.ConfigMaps(f.Name, f.Data) {
			problems = slices.DeleteFunc(problems, func(p config.Problem) bool {
				return p.File == f.Name && p.Line == found.Line && p.Severity == config.Warning && strings.HasPrefix(p.Message, "ConfigMap of v1 ")
			})
			problems = append(problems, found.Problems...)
		}
	}
	return problems
}

// readAll reads every path as one configuration: of an object in two files the second is an error.
func readAll(paths []string, stdin io.Reader) ([]file.File, error) {
	var files []file.File
	var faults []error
	for _, path := range paths {
		if path == "-" {
			files = append(files, file.ReadAll("stdin", stdin))
			continue
		}
		found, err := file.Read(path)
		files, faults = append(files, found...), append(faults, err)
	}
	return files, errors.Join(faults...)
}

type verdict struct {
	Objects  int              `json:"objects"` // number of objects that would be served
	Problems []config.Problem `json:"problems"`
}

func (v verdict) print(w io.Writer, output outputFlag) error {
	if output == outputJSON {
		v.Problems = append([]config.Problem{}, v.Problems...) // a list, never null
		return writeJSON(w, v)
	}
	for _, p := range v.Problems {
		if _, err := fmt.Fprintln(w, p); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

func (v verdict) summary() string {
	count := map[config.Severity]int{}
	for _, p := range v.Problems {
		count[p.Severity]++
	}
	return fmt.Sprintf("objects: %d, errors: %d, warnings: %d", v.Objects, count[config.Error], count[config.Warning])
}
