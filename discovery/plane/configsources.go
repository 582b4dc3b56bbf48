package plane

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// configSources are the sources in MeshConfig's configSources, which change with its file.
type configSources struct {
	open   func(config.ConfigSource) (discovery.Source, *file.Source) // the second one is nil unless the source is a store of files
	add    func(name string, source discovery.Source)
	remove func(name string)
	log    *slog.Logger

	mu      sync.Mutex
	running map[string]config.ConfigSource // by URL, which is the source's name
	stores  map[string]*file.Source        // the stores of files
}

// plan returns the sources to start, and the names of those to stop, so that the wanted ones run, and no others. One
// whose TLS has changed starts again, in place of the running one.
func plan(running map[string]config.ConfigSource, wanted []config.ConfigSource) (start []config.ConfigSource, stop []string) {
	named := map[string]bool{}
	for _, s := range wanted {
		named[s.URL] = true
		if was, runs := running[s.URL]; !runs || !proto.Equal(was.TLS, s.TLS) {
			start = append(start, s)
		}
	}
	for _, url := range slices.Sorted(maps.Keys(running)) {
		if !named[url] {
			stop = append(stop, url)
		}
	}
	return start, stop
}

// set makes these the running sources.
func (c *configSources) set(sources []config.ConfigSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start, stop := plan(c.running, sources)
	for _, s := range start {
		c.log.Info("configuration is read from a source of MeshConfig", "source", s.URL)
		source, store := c.open(s)
		c.running[s.URL] = s
		if store != nil {
			c.stores[s.URL] = store
		}
		c.add(s.URL, source)
	}
	for _, url := range stop {
		delete(c.running, url)
		delete(c.stores, url)
		c.remove(url)
	}
}

// storesAnd returns the stores of files, and that of ConfigDir, by the names of their sources.
func (c *configSources) storesAnd(own *file.Source) map[string]*file.Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := maps.Clone(c.stores)
	out["config"] = own
	return out
}

// lines returns a line for each fault of the stores of files.
func (c *configSources) lines() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, url := range slices.Sorted(maps.Keys(c.stores)) {
		out = append(out, c.stores[url].Status().Lines()...)
	}
	return out
}

// followed returns a source of settings; each MeshConfig that it sends sets the running sources.
func (c *configSources) followed(settings discovery.Source) discovery.Source {
	return tapped{settings, func(u model.Update) {
		for _, group := range u.Groups {
			for _, o := range group.Objects {
				if o.Kind == "MeshConfig" {
					c.set(config.ConfigSources(o))
				}
			}
		}
	}}
}

// tapped calls a function with each update before it forwards the update.
type tapped struct {
	discovery.Source
	tap func(model.Update)
}

func (t tapped) Run(ctx context.Context, updates chan<- model.Update) error {
	in := make(chan model.Update)
	var g errgroup.Group
	g.Go(func() error {
		defer close(in)
		return t.Source.Run(ctx, in)
	})
	g.Go(func() error {
		for u := range in {
			t.tap(u)
			select {
			case updates <- u:
			case <-ctx.Done():
			}
		}
		return nil
	})
	return g.Wait()
}
