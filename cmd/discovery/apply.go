package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func newApply() *cobra.Command {
	var p place
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
		files, err := readAll(*paths, cmd.InOrStdin())
		if err != nil {
			return err
		}
		objects, problems := p.written(files)
		if p.dir != "" && !config.HasErrors(problems) {
			found, err := p.beside(model.Settings{Domain: domain.Domain, LoopbackEndpoints: *loopback}, objects)
			if err != nil {
				return err
			}
			problems = append(problems, found...)
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
		at, closing, err := p.open()
		if err != nil {
			return err
		}
		defer closing()
		var faults []error
		for _, w := range objects {
			verb, revision, err := at.Apply(cmd.Context(), w)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", title(w.Kind, w.Namespace, w.Name), err))
				continue
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, revision %s\n", title(w.Kind, w.Namespace, w.Name), verb, revision); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
		return errors.Join(faults...)
	}
	return cmd
}

// written returns the objects of files that can be written, in their order, and the problems of all.
func (p *place) written(files []file.File) (objects []config.Written, problems []config.Problem) {
	first := map[string]*model.Object{}
	for _, f := range files {
		if f.Err != nil {
			problems = append(problems, config.Problem{File: f.Name, Severity: config.Error, Message: f.Err.Error()})
		}
		for _, d := range config.Split(f.Data) {
			for _, w := range config.ReadWritten(d.Data, p.namespace) {
				w.Item = w.At(f.Name, d.Line)
				problems = append(problems, w.Problems...)
				twin := first[w.Key]
				switch {
				case w.Object == nil: // a problem is an error, or a warning that the object is of another kind
				case twin != nil:
					problems = append(problems, config.Duplicate(w.Object, twin))
				case config.IsManifest(w.Kind) && p.dir == "":
					problems = append(problems, config.Problem{
						File: f.Name, Line: w.Line, Severity: config.Warning, Object: title(w.Kind, w.Namespace, w.Name),
						Message: "is Kubernetes' own, not written: kubectl apply writes it",
					})
				default:
					first[w.Key] = w.Object
					objects = append(objects, w)
				}
			}
		}
	}
	return objects, problems
}

// beside checks objects together with those of the directory, since they may refer to these.
func (p *place) beside(s model.Settings, objects []config.Written) ([]config.Problem, error) {
	files, err := file.Read(p.dir)
	if err != nil {
		return nil, err
	}
	all, _ := file.Check(files) // without the problems of the directory itself
	applied := map[string]bool{}
	for _, w := range objects {
		applied[w.Key] = true
	}
	all = slices.DeleteFunc(all, func(o *model.Object) bool { return applied[o.Key()] })
	for _, w := range objects {
		all = append(all, w.Object)
	}
	groups, problems := understood(s.Domain, all, "")
	titles := map[string]bool{}
	for _, w := range objects {
		titles[title(w.Kind, w.Namespace, w.Name)] = w.Kind == "Ingress"
	}
	problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return !titles[p.Object] })
	notes := model.NewOf(s, slices.Values(groups)).Notes()
	notes = slices.DeleteFunc(notes, func(n model.Note) bool { return !applied[n.Meta.Key()] })
	return append(problems, config.OfNotes(notes)...), nil
}
