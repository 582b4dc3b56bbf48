package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/plane"
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
