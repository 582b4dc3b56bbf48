package bootstrap

import (
	"net/netip"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/node"
)

// Params is all that a bootstrap depends on, and the keys of a template: docs/bootstrap.md tells each. The zero value
// of a field leaves its part out. There is no admin: each epoch has its own, which the caller puts over the bootstrap.
type Params struct {
	Node     node.ID
	Cluster  string // the service that the workload belongs to: Envoy's node.cluster
	Locality Locality
	Metadata node.Metadata

	Discovery Discovery

	Zipkin           Address // collector of spans: Zipkin's JSON, POST /api/v2/spans. It or OpenTelemetry
	OpenTelemetry    Address // collector of spans: OTLP over gRPC
	Statsd           Address // receiver of statsd's lines over UDP; an IP address, since Envoy looks up no name here
	MetricsService   Address // receiver of Envoy's metrics over gRPC
	AccessLogService Address // receiver of access logs over gRPC, for the listeners that name the cluster

	// SecretsSocket is the Unix socket where the agent serves the workload's certificate by SDS (the cluster sds-grpc); empty
	// for none.
	SecretsSocket string

	Stats          Stats
	Runtime        map[string]any // Envoy's runtime, key → JSON value
	MemoryLimit    uint64         // bytes that Envoy's heap may have; 0 for no overload manager
	OutlierLogPath string         // where Envoy logs the hosts that it ejects

	// Listeners on every address of the host that outlive an epoch, each for one path of the agent's own ports; 0 for
	// none. Two proxies of one user on one host must not share a port: the kernel would deal out their connections.
	PrometheusPort int // GET /stats/prometheus → 127.0.0.1:AdminPort
	ReadinessPort  int // GET /healthz/ready → 127.0.0.1:StatusPort
	AdminPort      int // of the agent's front of Envoy's admin
	StatusPort     int // of the agent's own status
}

// Locality is where the workload runs.
type Locality struct{ Region, Zone, SubZone string }

// ParseLocality reads "region/zone/subzone", of which the last ones may be missing.
func ParseLocality(text string) Locality {
	parts := append(strings.SplitN(text, "/", 3), "", "")
	return Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

// Discovery is the ADS server.
type Discovery struct {
	Address
	ConnectTimeout time.Duration
	Variant        Variant // SotW if empty
	TLS            *TLS    // nil for plain text

	// Socket is the Unix socket of the agent's relay: if it is set, Envoy connects there and not to Address, without TLS.
	Socket string
}

// Variant is how configuration travels over ADS.
type Variant string

// The variants of xDS.
const (
	SotW  Variant = "sotw"  // the state of the world with each answer
	Delta Variant = "delta" // what has changed
)

// TLS is mutual TLS with discovery. Envoy asks the caller for the certificates, at SecretsSocket by SDS: it follows their
// rotation, and has the last good ones when it is started again while the files are broken.
type TLS struct {
	Chain, Key, Roots string // PEM files
	SAN               string // what discovery's certificate must have: a URI (spiffe://…), an IP address or a DNS name
}

// SANType is the kind of the subject alternative name, as Envoy calls it.
func (t TLS) SANType() string {
	if _, err := netip.ParseAddr(t.SAN); err == nil {
		return "IP_ADDRESS"
	}
	if strings.Contains(t.SAN, "://") {
		return "URI"
	}
	return "DNS"
}

// Stats chooses the stats that Envoy keeps, each by a pattern of its full name. Without any pattern it keeps all; with
// some it keeps those, and those that the agent itself reads.
type Stats struct{ InclusionPrefixes, InclusionSuffixes, InclusionRegexps []string }

// Limited reports whether stats are chosen.
func (s Stats) Limited() bool {
	return len(s.InclusionPrefixes)+len(s.InclusionSuffixes)+len(s.InclusionRegexps) > 0
}

// Wildcard is the address at which the proxy listens on all of the host's: of both families where its own is IPv6.
func (p Params) Wildcard() string {
	if ip, err := netip.ParseAddr(p.Node.IP); err == nil && ip.Is6() && !ip.Is4In6() {
		return "::"
	}
	return "0.0.0.0"
}

// TracesTo is the cluster that collects spans, empty for none.
func (p Params) TracesTo() string {
	switch {
	case p.Zipkin.IsSet():
		return zipkinCluster
	case p.OpenTelemetry.IsSet():
		return openTelemetryCluster
	}
	return ""
}

// HasSinks reports whether stats are sent anywhere.
func (p Params) HasSinks() bool { return p.Statsd.IsSet() || p.MetricsService.IsSet() }
