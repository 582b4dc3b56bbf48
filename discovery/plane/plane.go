package plane

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/acme/client"
	"github.com/pilotlight/pilotlight/discovery/acme/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/config/mcp"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/notes"
	"github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/discovery/statedir"
	forms "github.com/pilotlight/pilotlight/discovery/statedir/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/status"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/version"
)

// Plane is a control plane, joined from a Config. Run runs it once.
type Plane struct {
	keySets       *keySets
	config        Config
	ports         listeners
	proxies       *ads.Server
	server        *discovery.Server
	store         *file.Source // of ConfigDir
	configSources *configSources
	reporter      *notes.Reporter
	notifier      page.Notifier // called when what the page shows has changed
	webhooks      *webhooks
	authority     *authority
	secureHTTP    secureHTTP
	issuers       *client.Client      // nil for none
	issued        *kubernetes.Store   // of issuers, for all replicas; nil for files
	state         *statedir.Directory // nil for none
	forms         *forms.Secret       // nil for none
	election      *kube.Election
	leading       []kube.Lead
	podEvents     *configs.PodEvents // nil if none are written
	began         time.Time
}

// New opens the ports and joins a control plane. It starts nothing. Its errors name the flag of a port or file that is
// at fault. After New, Run must be called: it closes the ports.
func New(c Config) (*Plane, error) {
	proxies := c.streams()
	authority, err := newAuthority(c, proxies.Mesh)
	if err != nil {
		return nil, err
	}
	secure := secureHTTP{newHandedConns(), authority}
	ports, err := listen(c, authority.own(secure.conns, c.ForeignAgents))
	if err != nil {
		return nil, err
	}
	if authority != nil && ports.tls != nil {
		authority.reload = ports.tls.Reload
	}
	sets, err := newKeySets(c.KeySets)
	if err != nil {
		return nil, err
	}
	kube.LogTo(c.Log)
	p := &Plane{config: c, ports: ports, authority: authority, secureHTTP: secure, proxies: proxies, election: c.Cluster.election(c.Replica, c.Log), began: time.Now()}
	p.reporter = notes.New(p.proxies.Proxies, c.Log)
	p.proxies.OnNews(p.reporter.Recheck)
	p.proxies.OnChange(p.notifier.Notify)
	p.joinSources()
	if err := p.joinIssuers(); err != nil {
		return nil, err
	}
	p.joinState()
	p.keySets = sets
	p.keySets.join(p.server)
	p.server.Judge = judges{p.server.Judge, p.keySets}
	p.joinSettings()
	if publish := authority.publisher(c); publish != nil {
		p.leading = append(p.leading, publish)
	}
	p.webhooks = newWebhooks(c, p.proxies.Mesh, p.server.Statuses)
	return p, nil
}

// streams returns the server of ADS, with the connections that the descriptors allow.
func (c Config) streams() *ads.Server {
	limits := c.Limits
	limits.ExposeObjects, limits.Wipe = c.ExposeDebug, c.Patience.Wipe
	limits.Connections = cmp.Or(limits.Connections, maxProxyConnections(descriptors()-c.reviews()))
	proxies := ads.New(limits, c.Log)
	if c.Traces != nil {
		proxies.Trace(c.Traces)
	}
	return proxies
}

// reviews returns how many descriptors the webhooks use, which proxies cannot have.
func (c Config) reviews() int {
	if c.Webhooks.Used() {
		return maxReviews
	}
	return 0
}

// joinSources makes the server with its sources, and the work of the leader for them.
func (p *Plane) joinSources() {
	c := p.config
	c.Patience.Recall = c.StateMaxAge
	secrets, dir := c.secretSources()
	ingresses := newIngresses(c.Ingress, c.Domain, dir)
	statuses := c.Cluster.statuses(c.Replica, c.Log)
	p.store = c.files(ingresses)
	begin := p.joinForms()
	p.server = &discovery.Server{
		Sources: c.sources(p.store, c.Cluster.objects(statuses, begin, c.Log)), Secrets: secrets,
		Mesh:   model.Settings{Domain: c.Domain, LoopbackEndpoints: c.Loopback, Listeners: p.ports.certified(), Release: version.Get().Version},
		Pusher: p.proxies, Vault: p.proxies, Judge: p.reporter,
		Debounce: c.Debounce, Patience: c.Patience, Required: c.required, Log: c.Log,
	}
	if p.forms != nil {
		p.server.LastGood = p.forms
	}
	if addresses := ingresses.join(p.server, c.Cluster, c.inCluster(), c.Log); addresses != nil {
		p.leading = append(p.leading, addresses.Run)
	}
	if gateways := newGatewaySecrets(c.Cluster, c.GatewaySecrets); gateways != nil {
		p.server.Secrets["gatewaySecrets"] = gateways.reader
		p.proxies.Lacking(gateways.lacking)
		p.server.Judge = judges{p.reporter, gateways}
	}
	p.podEvents = c.podEvents()
	p.reporter.OnJudged(func(m *model.Mesh, found []model.Note) {
		p.notifier.Notify()
		if statuses == nil || !whole(p.server.Statuses()) {
			return
		}
		if statuses.Judged(m, found); p.podEvents != nil {
			p.podEvents.Judged(m, found)
		}
	})
	if statuses != nil {
		p.leading = append(p.leading, statuses.Run)
	}
	if len(p.server.Secrets) > 0 || len(c.Issuers.Of) > 0 {
		p.proxies.SetSecrets(secret.Set{}) // before a proxy subscribes: one that is refused does not subscribe again
	}
	if others := c.others(p.server); others != nil {
		p.server.Sources["clusters"] = others
	}
	p.configSources = &configSources{
		open: func(s config.ConfigSource) (discovery.Source, *file.Source) { return c.configSource(s, ingresses) },
		add:  p.server.Add,
		remove: func(url string) {
			p.server.Remove(url)
			ingresses.remove(url)
		},
		log: c.Log, running: map[string]config.ConfigSource{}, stores: map[string]*file.Source{},
	}
}

// configSource returns a source that MeshConfig names, and the store that it is, if it is one of files.
func (c Config) configSource(s config.ConfigSource, i *ingresses) (discovery.Source, *file.Source) {
	switch {
	case s.Scheme == "xds":
		source := mcp.New(s.Place, s.TLS, c.Patience.Wipe, c.Log)
		source.Domain = c.Domain
		return source, nil
	case s.Scheme == "fs":
		store := newStore(s.Place, c.Domain, c.Patience.Wipe, i.feed(s.URL), c.Log)
		return store, store
	case s.Place != "":
		return noStore("k8s://" + s.Place + " is no cluster that is known here, want k8s:// for the one of --kubeconfig"), nil
	case c.Cluster.Objects:
		return noStore(""), nil // they are served already
	default:
		return c.Cluster.objects(nil, nil, c.Log), nil
	}
}

// joinSettings makes the sources that MeshConfig's file names follow it. Those that it names now are there before the
// first mesh, which waits for them.
func (p *Plane) joinSettings() {
	settings, known := p.server.Sources["meshConfig"]
	if !known {
		return
	}
	p.server.Sources["meshConfig"] = p.configSources.followed(settings)
	if o, _ := file.ReadSettings("MeshConfig", p.config.MeshConfig); o != nil {
		p.configSources.set(config.ConfigSources(o))
		return
	}
	for _, group := range p.server.Remembered["meshConfig"].Groups {
		for _, o := range group.Objects {
			p.configSources.set(config.ConfigSources(o))
		}
	}
}

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
	if p.podEvents != nil {
		g.Go(func() error { return p.podEvents.Run(ctx, c.Cluster.connect) })
	}
	g.Go(func() error { return p.proxies.Serve(ctx, ports.grpc) })
	people := page.New(&p.notifier, p.facts, p.faultLines)
	g.Go(func() error { return people.Run(ctx) })
	pages := p.pages(people)
	g.Go(func() error { return serveHTTP(ctx, ports.web, pages.Handler(), pageBounds(), c.Log) })
	if ports.secure != nil {
		g.Go(func() error {
			return p.secureHTTP.serve(ctx, ports.secure.Addr(), pages.Remote(p.maySee, c.Log), c.Log)
		})
		g.Go(func() error { return p.proxies.ServeTLS(ctx, ports.secure, ports.tls) })
		if c.Certificates != (ads.Certificates{}) {
			g.Go(func() error { return reload(ctx, ports.tls, c.Certificates, c.Log) })
		}
	}
	if p.authority != nil {
		g.Go(func() error { return p.authority.run(ctx) })
		defer p.authority.close()
	}
	if ports.monitoring != nil {
		g.Go(func() error {
			return serveHTTP(ctx, ports.monitoring, status.Monitoring(version.Get(), p.metrics()...), pageBounds(), c.Log)
		})
	}
	if p.issuers != nil {
		g.Go(func() error { return p.runIssuers(ctx) })
	}
	if p.webhooks != nil {
		g.Go(func() error { return p.webhooks.run(ctx, ports.webhooks, c.Patience.Sync) })
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
	return slices.Concat(p.store.Status().Lines(), p.configSources.lines(), lines(p.server.Statuses()), p.proxies.Lines(), p.stateLines(), p.webhooks.lines(), p.authority.lines(), p.issuerLines())
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
	return strings.Join(slices.DeleteFunc([]string{p.webhooks.lacks(), p.authority.lacks()}, func(s string) bool { return s == "" }), ", ")
}

// metrics returns everything that is measured.
func (p *Plane) metrics() []prometheus.Collector {
	stores := file.Metrics(func() map[string]*file.Source { return p.configSources.storesAnd(p.store) })
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
	return slices.Concat(all, p.webhooks.collectors(), p.authority.collectors(), p.issuerMetrics())
}
