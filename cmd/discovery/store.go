package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/printer"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// storeFlags name the store of objects for apply, get and delete: a directory, or an API server.
type storeFlags struct {
	dir       string
	access    kube.Access
	namespace string
	force     bool
}

// add adds the flags of a store to a command.
func (p *storeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.dir, "configDir", "", "directory of the objects, as serve reads it; without it they are in the API server")
	cmd.Flags().StringVar(&p.access.File, "kubeconfig", "", "kubeconfig file of the API server; if empty, $KUBECONFIG, then ~/.kube/config, then the cluster whose Pod this is")
	cmd.Flags().StringVar(&p.access.Context, "context", "", "context of the kubeconfig file; if empty, its current one")
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "", "namespace of objects that name none; if empty, that of the context, or default")
}

// check returns the fault of the flags, and finds the kubeconfig file.
func (p *storeFlags) check() error {
	if p.dir != "" && (p.access.File != "" || p.access.Context != "") {
		return setting.Usage("discovery", errors.New("--configDir is given with --kubeconfig or --context, want one place"))
	}
	if p.dir == "" && p.access.File == "" {
		p.access.File = kube.PersonsFile(os.Getenv("KUBECONFIG"), os.Getenv("HOME"))
	}
	p.access.UserAgent = userAgent()
	if p.namespace == "" && p.dir == "" {
		p.namespace = p.access.Namespace()
	}
	p.namespace = cmp.Or(p.namespace, "default")
	return nil
}

// open returns the store, and a function that closes it.
func (p *storeFlags) open() (plane.Store, func(), error) {
	return plane.OpenStore(p.dir, p.access, p.force)
}

// each opens the store, does something with each object, and prints what became of it. The errors of all are joined.
func (p *storeFlags) each(cmd *cobra.Command, objects []config.Written, do func(plane.Store, config.Written) (became string, err error)) error {
	at, closing, err := p.open()
	if err != nil {
		return err
	}
	defer closing()
	var faults []error
	for _, w := range objects {
		became, err := do(at, w)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", w.Title(), err))
			continue
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", w.Title(), became); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return errors.Join(faults...)
}

// kindNamed returns the kind for a text.
func kindNamed(text string) (string, error) {
	kind, err := config.KindNamed(text)
	return kind, usage(err)
}

func newApply() *cobra.Command {
	var p storeFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|- [--configDir DIR]",
		Short: "Validate objects, and write them into an API server or a directory",
		Long: `Validate Istio objects as validate does, and write them: by server-side apply into an API server, or with --configDir into a directory that
serve watches. Nothing is written if one of them has an error. Prints what became of each object, and its revision: the resourceVersion of the API
server, or a hash.

In a directory an object replaces the file in which it lies alone, of whatever name, else it gets KIND.NAMESPACE.NAME.yaml. One that lies in a file with
others is refused: its place in that file, and the comments there, are a person's. Comments of what is applied are not written. Objects of other
kinds are left to kubectl; a directory takes those of Kubernetes that serve reads there.`,
		Example: "  discovery apply -f reviews.yaml\n  discovery apply -f mesh/ --configDir /etc/mesh",
		Args:    noArgs,
	}
	paths := cmd.Flags().StringArrayP("filename", "f", nil, "file or directory to apply, - for standard input; repeatable")
	cmd.Flags().BoolVar(&p.force, "force-conflicts", false, "take over fields that another program has applied")
	loopback := addLoopback(cmd)
	domain := addDomain(cmd, "DNS domain of the cluster's services, as serve has it, for what --configDir holds beside the objects")
	p.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(*paths) == 0 {
			return setting.Usage("discovery", errors.New("--filename is missing: want a file, a directory or -"))
		}
		if err := p.check(); err != nil {
			return err
		}
		files, err := file.ReadEach(*paths, cmd.InOrStdin())
		if err != nil {
			return err
		}
		objects, problems, err := p.judged(files, model.Settings{Domain: domain.Domain, LoopbackEndpoints: *loopback})
		if err != nil {
			return err
		}
		for _, problem := range problems {
			cmd.PrintErrln(problem)
		}
		switch {
		case config.HasErrors(problems):
			return errors.New("nothing is written, for there are errors")
		case len(objects) == 0:
			return fmt.Errorf("%s: no object that can be written, want Istio's in files named *.yaml, *.yml or *.json", strings.Join(*paths, ", "))
		}
		return p.each(cmd, objects, func(at plane.Store, w config.Written) (string, error) {
			verb, revision, err := at.Apply(cmd.Context(), w)
			return fmt.Sprintf("%s, revision %s", verb, revision), err
		})
	}
	return cmd
}

// judged returns the objects of files that the store takes, and the problems of all, beside those that a directory has.
func (p *storeFlags) judged(files []file.File, settings model.Settings) ([]config.Written, []config.Problem, error) {
	objects, problems := file.Writable(files, p.namespace)
	switch {
	case p.dir == "":
		rest, left := validation.WithoutManifests(objects)
		return rest, append(problems, left...), nil
	case config.HasErrors(problems):
		return objects, problems, nil
	}
	present, err := file.Read(p.dir)
	if err != nil {
		return nil, nil, err
	}
	all, _ := file.Check(present) // without the problems of the directory itself
	return objects, append(problems, validation.Mesh{Settings: settings}.Beside(objects, all)...), nil
}

func newGet() *cobra.Command {
	var p storeFlags
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Print the objects of a kind that an API server or a directory has",
		Long: "Print the Istio objects of a kind: VirtualService, its plural or its short name vs. NAMESPACE in the output is where an object is, and REVISION\n" +
			"changes with it. Exits 1 if an object that is named is not there.",
		Example: "  discovery get virtualservices -A\n  discovery get vs reviews -o yaml --configDir /etc/mesh",
		Args:    subcommand.Count(1, 2, "KIND, or KIND and NAME"),
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "objects of all namespaces")
	output := cmd.Flags().StringP("output", "o", "table", "form of the output: table, name, yaml or json")
	p.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		show, err := printer.Form(*output, configs.ConditionType)
		if err != nil {
			return setting.Usage("discovery", fmt.Errorf("--output %s: %w", *output, err))
		}
		kind, err := kindNamed(args[0])
		if err != nil {
			return err
		}
		name := append(args, "")[1]
		if *all && name != "" {
			return setting.Usage("discovery", errors.New("NAME is given with --all-namespaces, want one of them"))
		}
		if err := p.check(); err != nil {
			return err
		}
		namespace := p.namespace
		if *all {
			namespace = ""
		}
		at, closing, err := p.open()
		if err != nil {
			return err
		}
		defer closing()
		found, err := at.Objects(cmd.Context(), kind, namespace, name)
		switch {
		case err != nil:
			return err
		case len(found) == 0 && name != "":
			return fmt.Errorf("%s: %w", config.Written{Kind: kind, Namespace: namespace, Name: name}.Title(), config.ErrNotThere)
		case len(found) == 0 && (*output == "table" || *output == "name"):
			cmd.PrintErrln("no objects")
			return nil
		}
		if err := show(cmd.OutOrStdout(), found); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	return cmd
}

func newDelete() *cobra.Command {
	var p storeFlags
	cmd := &cobra.Command{
		Use:   "delete KIND NAME | delete -f FILE|DIR|-",
		Short: "Delete objects from an API server or a directory",
		Long: "Delete an Istio object by its kind and name, or all those that files name. Objects with errors are deleted too, if their kind and name can be read.\n" +
			"In a directory the file is removed in which an object lies alone; one that lies in a file with others is refused. Exits 1 if one is not there.",
		Example: "  discovery delete vs reviews\n  discovery delete -f mesh/ --configDir /etc/mesh",
	}
	paths := cmd.Flags().StringArrayP("filename", "f", nil, "file or directory whose objects are deleted, - for standard input; repeatable")
	p.add(cmd)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 2 && len(args) != 0 || (len(args) == 0) == (len(*paths) == 0) {
			return setting.Usage("discovery", errors.New("want KIND and NAME, or -f"))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := p.check(); err != nil {
			return err
		}
		var doomed []config.Written
		if len(args) == 2 {
			kind, err := kindNamed(args[0])
			if err != nil {
				return err
			}
			doomed = []config.Written{{Kind: kind, Namespace: p.namespace, Name: args[1]}}
		}
		files, err := file.ReadEach(*paths, cmd.InOrStdin())
		if err != nil {
			return err
		}
		named, left, err := file.Named(files, p.namespace)
		for _, place := range left {
			cmd.PrintErrf("%s: is left out, for it is not of a kind that is served\n", place)
		}
		if err != nil {
			return err
		}
		return p.each(cmd, append(doomed, named...), func(at plane.Store, w config.Written) (string, error) {
			return "deleted", at.Delete(cmd.Context(), w.Kind, w.Namespace, w.Name)
		})
	}
	return cmd
}
