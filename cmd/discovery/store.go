package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
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
