package plane

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/discovery/status"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/version"
)

// Run serves until ctx is done, or one part fails. It returns when everything that it started has ended.
func (p *Plane) Run(ctx context.Context) error {
	c, ports := p.config, p.ports
	c.Log.Info("serving", "configDir", c.ConfigDir, "registries", c.Registries, "domain", c.Domain.String(), "grpcAddr", addressOf(ports.grpc),
		"httpAddr", addressOf(ports.web), "secureGRPCAddr", addressOf(ports.secure), "monitoringAddr", addressOf(ports.monitoring),
		"webhookAddr", addressOf(ports.webhooks))
	g, ctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return p.server.Run(ctx)
	})
	if p.state != nil {
		g.Go(func() error { return p.state.Run(ended) })
	}
	g.Go(func() error { return p.reporter.Run(ctx) })
	if len(p.leading) > 0 {
		g.Go(func() error { return p.election.Run(ctx, p.leading...) })
	}
	if p.ofPods != nil {
		g.Go(func() error { return p.ofPods.Run(ctx, c.Cluster.connect) })
	}
	g.Go(func() error { return p.proxies.Serve(ctx, ports.grpc) })
	people := page.New(&p.bell, p.facts, p.faultLines)
	g.Go(func() error { return people.Run(ctx) })
	pages := p.pages(people)
	g.Go(func() error { return serveHTTP(ctx, ports.web, pages.Handler(), pageBounds(), c.Log) })
	if ports.secure != nil {
		g.Go(func() error { return p.doors.serve(ctx, ports.secure.Addr(), pages.Afar(p.maySee, c.Log), c.Log) })
		g.Go(func() error { return p.proxies.ServeTLS(ctx, ports.secure, ports.tls) })
		if c.Certificates != (ads.Certificates{}) {
			g.Go(func() error { return reload(ctx, ports.tls, c.Certificates, c.Log) })
		}
	}
	if p.office != nil {
		g.Go(func() error { return p.office.run(ctx) })
		defer p.office.close()
	}
	if ports.monitoring != nil {
		g.Go(func() error {
			return serveHTTP(ctx, ports.monitoring, status.Monitoring(version.Get(), p.metrics()...), pageBounds(), c.Log)
		})
	}
	if p.issuers != nil {
		g.Go(func() error { return p.runIssuers(ctx) })
	}
	if p.hooks != nil {
		g.Go(func() error { return p.hooks.run(ctx, ports.webhooks, c.Patience.Sync) })
	}
	err := g.Wait()
	c.Log.Info("stopped")
	return err
}

// pages returns what the HTTP port shows.
func (p *Plane) pages(people *page.Page) status.Pages {
	return status.Pages{
		Awaited: p.awaited, Page: people.Handler(),
		Mesh: p.proxies.Mesh, Notes: p.reporter.Notes, Proxies: p.proxies, Exposed: p.config.ExposeDebug,
		Release: p.release, Explain: p.explain, Validate: p.validate, MaxSent: validation.MaxSent,
		Config:  func() any { return p.store.Status() },
		Sources: func() any { return p.server.Statuses() },
		Faults:  p.faultLines,
	}
}

func (p *Plane) awaited() string {
	return awaited(p.server.Synced(), p.server.Statuses(), p.lacks(), time.Since(p.began), p.config.Patience.Sync)
}

// faultLines returns a line for each fault that does not make discovery unready.
func (p *Plane) faultLines() []string {
	return slices.Concat(p.store.Status().Lines(), p.further.lines(), lines(p.server.Statuses()), p.proxies.Lines(), p.stateLines(), p.hooks.lines(), p.office.lines(), p.issuerLines())
}

// release ends the hold of a source, or of what proxies keep that came back.
func (p *Plane) release(source string) (int, error) {
	if source == ads.ReleaseOfProxies {
		return p.proxies.Release()
	}
	return p.server.Release(source)
}

// lacks returns what webhooks and the authority need before they can answer; "" for nothing.
func (p *Plane) lacks() string {
	return strings.Join(slices.DeleteFunc([]string{p.hooks.lacks(), p.office.lacks()}, func(s string) bool { return s == "" }), ", ")
}

// metrics returns everything that is measured.
func (p *Plane) metrics() []prometheus.Collector {
	stores := file.Metrics(func() map[string]*file.Source { return p.further.storesAnd(p.store) })
	all := append(collectors(p.server.Sources), p.proxies.Metrics(), p.server, p.reporter, stores)
	if _, counted := p.server.Sources[keySetsName]; !counted {
		all = append(all, p.keySets.source)
	}
	if len(p.leading) > 0 {
		all = append(all, p.election)
	}
	if p.state != nil {
		all = append(all, p.state)
	}
	return slices.Concat(all, p.hooks.collectors(), p.office.collectors(), p.issuerMetrics())
}
