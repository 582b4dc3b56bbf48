package plane

import (
	"cmp"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/store"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
)

// Config is the configuration of a control plane. It is not changed.
type Config struct {
	Domain         model.Domain // of the cluster's services
	KeySets        KeySets
	Loopback       bool   // endpoints at loopback addresses go to every proxy: the whole mesh is on one machine
	ConfigDir      string // of objects; empty for none
	MeshConfig     string // file; empty for Istio's defaults
	NetworksConfig string // file; empty for one network
	SecretsDir     string // empty for none

	Registries   []string // names of Registries
	Domains      Domains  // whose hosts they may give
	Optional     []string // names of sources, or URLs of configSources, without which discovery becomes ready
	Consul       consul.Config
	Eureka       eureka.Config
	CloudFoundry CloudFoundry
	Cluster      Cluster

	Ingress        Ingress
	Issuers        Issuers
	GatewaySecrets Names // service accounts of gateways, which receive the Secrets that Gateways of their namespace name
	Webhooks       Webhooks

	Addresses     Addresses
	ForeignAgents bool             // certificates count at the secure port without the protocol of our agents
	ExposeDebug   bool             // answer /debug to other hosts too
	Certificates  ads.Certificates // zero for ADS without TLS only, or with a certificate of Authority
	Authority     Authority

	Limits   ads.Limits // Connections 0 is replaced by a computed value
	Debounce discovery.Debounce
	Patience discovery.Patience

	StateDir    string        // keeps what is served for the next start; empty for none
	StateMaxAge time.Duration // of what it has, to be used

	Replica string               // name of this run of this replica, unlike that of any other one
	Traces  trace.TracerProvider // nil for no traces
	Log     *slog.Logger
}

// Addresses are those to listen at, as host:port.
type Addresses struct {
	GRPC, HTTP string
	SecureGRPC string // used with Certificates
	Monitoring string // empty for none
	Webhooks   string // used with Webhooks
}

// CloudFoundry holds the settings for the routes of a Cloud Foundry.
type CloudFoundry struct {
	Broker              cloudfoundry.Broker
	Interval, Threshold time.Duration
}

// Cluster is a Kubernetes cluster: its address, and the data that are read from it.
type Cluster struct {
	Access     kube.Access
	ID         string
	Namespaces []string // empty for all
	Objects    bool     // read its Istio objects
	Settings   Name     // ConfigMap of the mesh's settings; zero for none
	Kubeconfig string   // namespace of the Secrets with kubeconfigs of other clusters; empty for none
	Statuses   bool     // write the status of its Istio objects
	Lease      Name     // by which one of all replicas leads
}

// Ingress selects the Ingresses that are served, and the proxies that serve them.
type Ingress struct {
	Class    string // empty for none
	Selector map[string]string
	Identity Name  // service account of the proxies
	Ports    Ports // of the proxies
	Service  Name  // before the proxies; zero for none
}

// Webhooks are the admission webhooks that the API server calls here.
type Webhooks struct {
	Service              Name
	Secret               string // in the Service's namespace
	Hosts                []string
	Mutating, Validating string // names of the configurations; empty for none
	Injection            Name   // ConfigMap; zero for the defaults
}

// Used reports whether there are webhooks.
func (w Webhooks) Used() bool { return w.Mutating != "" || w.Validating != "" }

// Authority is an authority that signs the certificates of workloads.
type Authority struct {
	Used  bool
	Dir   string // of its files and of join tokens, unless Secret is given
	Terms ca.Terms
	// Secret holds it for all replicas, one beside it the join tokens, and its roots are written into each namespace;
	// zero for the files of Dir.
	Secret Name
	Hosts  []string // further names and addresses of the server's own certificate
	// Issuers is a file of issuers whose tokens are taken, with the files of their keys; empty for none.
	Issuers string
	// Overlap is how long both roots are trusted at least, while one is replaced, before the new one signs. What the
	// lives of certificates need is not cut.
	Overlap time.Duration
}

// formerDir was the default of an authority's directory. It is below that of the proxy, whose user could replace it.
const formerDir = "/var/lib/pilotlight/ca"

// dirOf returns the directory of an authority, the default for "".
func dirOf(dir string) (string, error) {
	if dir = cmp.Or(dir, AuthorityDir); dir == AuthorityDir {
		return dir, store.Moved(formerDir, dir)
	}
	return dir, nil
}

// Defaults of an Authority.
const (
	AuthorityDir = "/var/lib/pilotlight-discovery/ca"
	AuthorityTTL = 24 * time.Hour // also the most
)

func (c Config) secure() bool { return c.Certificates != ads.Certificates{} || c.Authority.Used }
