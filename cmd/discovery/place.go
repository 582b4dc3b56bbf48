package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// place is the store of objects for apply, get and delete: a directory, or an API server.
type place struct {
	dir       string
	access    kube.Access
	namespace string
	force     bool
}

// add adds the flags of a place to a command.
func (p *place) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.dir, "configDir", "", "directory of the objects, as serve reads it; without it they are in the API server")
	cmd.Flags().StringVar(&p.access.File, "kubeconfig", "", "kubeconfig file of the API server; if empty, $KUBECONFIG, then ~/.kube/config, then the cluster whose Pod this is")
	cmd.Flags().StringVar(&p.access.Context, "context", "", "context of the kubeconfig file; if empty, its current one")
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "", "namespace of objects that name none; if empty, that of the context, or default")
}

// check returns the fault of the flags, and finds the kubeconfig file.
func (p *place) check() error {
	if p.dir != "" && (p.access.File != "" || p.access.Context != "") {
		return setting.Usage("discovery", errors.New("--configDir is given with --kubeconfig or --context, want one place"))
	}
	if p.dir == "" && p.access.File == "" {
		p.access.File = kubeconfig(os.Getenv("KUBECONFIG"), os.Getenv("HOME"))
	}
	p.access.UserAgent = userAgent()
	if p.namespace == "" && p.dir == "" {
		p.namespace = p.access.Namespace()
	}
	p.namespace = cmp.Or(p.namespace, "default")
	return nil
}

// kubeconfig returns the file that kubectl would read first; "" for none.
func kubeconfig(variable, home string) string {
	for _, path := range filepath.SplitList(variable) {
		if path != "" {
			return path
		}
	}
	path := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// held is a store in which objects are read and changed.
type held interface {
	Apply(ctx context.Context, w config.Written) (verb, revision string, err error)
	Objects(ctx context.Context, kind, namespace, name string) ([]config.Written, error)
	Delete(ctx context.Context, kind, namespace, name string) error
}

// open returns the store of the place, and a function that closes it.
func (p *place) open() (held, func(), error) {
	if p.dir != "" {
		d, err := file.OpenDirectory(p.dir)
		return directory{d}, func() {}, err
	}
	client, err := p.access.Client()
	if err != nil {
		return nil, nil, err
	}
	return configs.NewStore(client, p.force), client.Close, nil
}

// directory is a directory of objects that implements held.
type directory struct{ *file.Directory }

func (d directory) Apply(_ context.Context, w config.Written) (verb, revision string, err error) {
	return d.Directory.Apply(w)
}

func (d directory) Objects(_ context.Context, kind, namespace, name string) ([]config.Written, error) {
	return d.Directory.Objects(kind, namespace, name), nil
}

func (d directory) Delete(_ context.Context, kind, namespace, name string) error {
	return d.Directory.Delete(kind + "/" + namespace + "/" + name)
}

// kindNamed returns the kind for a text: its name, its plural, or its short name in kubectl.
func kindNamed(text string) (string, error) {
	short := map[string]string{
		"dr": "DestinationRule", "gw": "Gateway", "se": "ServiceEntry", "vs": "VirtualService", "we": "WorkloadEntry", "wg": "WorkloadGroup",
	}
	low, _, _ := strings.Cut(strings.ToLower(text), ".") // virtualservices.networking.istio.io
	if kind := short[low]; kind != "" {
		return kind, nil
	}
	var names []string
	for _, r := range config.Resources() {
		if low == strings.ToLower(r.Kind) || low == r.Plural {
			return r.Kind, nil
		}
		names = append(names, r.Kind)
	}
	return "", setting.Usage("discovery", fmt.Errorf("%s: want one of %s", text, strings.Join(names, ", ")))
}
