package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/config/mcp"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// configSources are the sources in MeshConfig's configSources, which change with its file.
type configSources struct {
	wipeDelay time.Duration
	log       *slog.Logger
	cluster   cluster    // of k8s://
	ingresses *ingresses // of fs://; nil if none are served
	domain    model.Domain
	add       func(name string, source discovery.Source)
	remove    func(name string)

	mu      sync.Mutex
	running map[string]config.ConfigSource // by URL, which is the source's name
	stores  map[string]*file.Source        // the stores of files
}

func newConfigSources(server *discovery.Server, wipeDelay time.Duration, c cluster, d model.Domain, i *ingresses, log *slog.Logger) *configSources {
	return &configSources{
		wipeDelay: wipeDelay, log: log, cluster: c, domain: d, ingresses: i, add: server.Add, remove: server.Remove,
		running: map[string]config.ConfigSource{}, stores: map[string]*file.Source{},
	}
}

// set makes these the running sources.
func (c *configSources) set(sources []config.ConfigSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	named := map[string]bool{}
	for _, s := range sources {
		named[s.URL] = true
		if was, runs := c.running[s.URL]; runs && proto.Equal(was.TLS, s.TLS) {
			continue
		}
		c.log.Info("configuration is read from a source of MeshConfig", "source", s.URL)
		c.running[s.URL] = s
		c.add(s.URL, c.source(s))
	}
	for _, url := range slices.Sorted(maps.Keys(c.running)) {
		if !named[url] {
			delete(c.running, url)
			delete(c.stores, url)
			c.remove(url)
			c.ingresses.remove(url)
		}
	}
}

func (c *configSources) source(s config.ConfigSource) discovery.Source {
	switch s.Scheme {
	case "xds":
		source := mcp.New(s.Place, s.TLS, c.wipeDelay, c.log)
		source.Domain = c.domain
		return source
	case "fs":
		store := newStore(s.Place, c.domain, c.wipeDelay, c.ingresses.feed(s.URL), c.log)
		c.stores[s.URL] = store
		return store
	default:
		return c.cluster.store(s.Place, c.log)
	}
}

// storesAnd returns the stores of files, and that of --configDir, by the names of their sources.
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
