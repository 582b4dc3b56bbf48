package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/internal/setting"
)

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
		for _, f := range files {
			if f.Err != nil {
				return fmt.Errorf("read %s: %w", f.Name, f.Err)
			}
			for _, d := range config.Split(f.Data) {
				for _, w := range config.ReadWritten(d.Data, p.namespace) {
					if w.Key == "" || w.Name == "" {
						cmd.PrintErrf("%s:%d: is left out, for it is not of a kind that is served\n", f.Name, d.Line+w.Line-1)
						continue
					}
					doomed = append(doomed, w)
				}
			}
		}
		at, closing, err := p.open()
		if err != nil {
			return err
		}
		defer closing()
		var faults []error
		for _, w := range doomed {
			if err := at.Delete(cmd.Context(), w.Kind, w.Namespace, w.Name); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", w.Title(), err))
				continue
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s deleted\n", w.Title()); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
		return errors.Join(faults...)
	}
	return cmd
}
