package plane

import (
	"cmp"
	"time"

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
	"github.com/pilotlight/pilotlight/internal/version"
)

// Plane is a control plane, joined from a Config. Run runs it once.
type Plane struct {
	keySets  *keySets
	config   Config
	ports    listeners
	proxies  *ads.Server
	server   *discovery.Server
	store    *file.Source // of ConfigDir
	further  *configSources
	reporter *notes.Reporter
	bell     page.Bell // rung when what the page shows has changed
	hooks    *hooks
	office   *office
	doors    doors
	issuers  *client.Client      // nil for none
	issued   *kubernetes.Store   // of issuers, for all replicas; nil for files
	state    *statedir.Directory // nil for none
	forms    *forms.Secret       // nil for none
	election *kube.Election
	leading  []kube.Lead
	ofPods   *configs.PodEvents // nil if none are written
	began    time.Time
}

// New opens the ports and joins a control plane. It starts nothing. Its errors name the flag of a port or file that is at
// fault. After New, Run must be called: it closes the ports.
func New(c Config) (*Plane, error) {
	proxies := c.streams()
	office, err := newOffice(c, proxies.Mesh)
	if err != nil {
		return nil, err
	}
	doors := doors{newHanded(), office}
	ports, err := listen(c, office.own(doors.conns, c.ForeignAgents))
	if err != nil {
		return nil, err
	}
	if office != nil && ports.tls != nil {
		office.reload = ports.tls.Reload
	}
	sets, err := newKeySets(c.KeySets)
	if err != nil {
		return nil, err
	}
	kube.LogTo(c.Log)
	p := &Plane{config: c, ports: ports, office: office, doors: doors, proxies: proxies, election: c.Cluster.election(c.Replica, c.Log), began: time.Now()}
	p.reporter = notes.New(p.proxies.Proxies, c.Log)
	p.proxies.OnNews(p.reporter.Recheck)
	p.proxies.OnChange(p.bell.Ring)
	p.joinSources()
	if err := p.joinIssuers(); err != nil {
		return nil, err
	}
	p.joinState()
	p.keySets = sets
	p.keySets.join(p.server)
	p.server.Judge = judges{p.server.Judge, p.keySets}
	p.joinSettings()
	if publish := office.publisher(c); publish != nil {
		p.leading = append(p.leading, publish)
	}
	p.hooks = newHooks(c, p.proxies.Mesh, p.server.Statuses)
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
	if gateways := newOfGateways(c.Cluster, c.GatewaySecrets); gateways != nil {
		p.server.Secrets["gatewaySecrets"] = gateways.reader
		p.proxies.Lacking(gateways.lacking)
		p.server.Judge = judges{p.reporter, gateways}
	}
	p.ofPods = c.podEvents()
	p.reporter.OnJudged(func(m *model.Mesh, found []model.Note) {
		p.bell.Ring()
		if statuses == nil || !whole(p.server.Statuses()) {
			return
		}
		if statuses.Judged(m, found); p.ofPods != nil {
			p.ofPods.Judged(m, found)
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
	p.further = &configSources{
		open: func(s config.ConfigSource) (discovery.Source, *file.Source) { return c.further(s, ingresses) },
		add:  p.server.Add,
		remove: func(url string) {
			p.server.Remove(url)
			ingresses.remove(url)
		},
		log: c.Log, running: map[string]config.ConfigSource{}, stores: map[string]*file.Source{},
	}
}

// further returns a source that MeshConfig names, and the store that it is, if it is one of files.
func (c Config) further(s config.ConfigSource, i *ingresses) (discovery.Source, *file.Source) {
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
	p.server.Sources["meshConfig"] = p.further.followed(settings)
	if o, _ := file.ReadSettings("MeshConfig", p.config.MeshConfig); o != nil {
		p.further.set(config.ConfigSources(o))
		return
	}
	for _, group := range p.server.Remembered["meshConfig"].Groups {
		for _, o := range group.Objects {
			p.further.set(config.ConfigSources(o))
		}
	}
}
