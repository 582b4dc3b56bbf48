package plane

import (
	"context"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Store is a store whose objects a person reads and changes.
type Store interface {
	Apply(ctx context.Context, w config.Written) (verb, revision string, err error)
	Objects(ctx context.Context, kind, namespace, name string) ([]config.Written, error)
	Delete(ctx context.Context, kind, namespace, name string) error
}

// OpenStore opens the store of a directory, or, if that is empty, of an API server, and returns a function that closes it.
// With force, Apply takes over fields that another program has applied there.
func OpenStore(dir string, access kube.Access, force bool) (Store, func(), error) {
	if dir != "" {
		d, err := file.OpenDirectory(dir)
		return directory{d}, func() {}, err
	}
	client, err := access.Client()
	if err != nil {
		return nil, nil, err
	}
	return configs.NewStore(client, force), client.Close, nil
}

// directory is a Store of files.
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
