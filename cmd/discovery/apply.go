package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/setting"
)

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
