package bootstrap

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
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

// Address is a host with a port; the zero value is none.
type Address struct {
	Host string // DNS name or IP address, the latter without brackets
	Port int
}

// ParseAddress reads host:port, the port 1 to 65535; an IPv6 address is in brackets.
func ParseAddress(text string) (Address, error) {
	host, port, found := cutLast(text, ":")
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		host, bracketed = strings.CutSuffix(inner, "]")
		found = found && bracketed
	} else if strings.Contains(host, ":") {
		found = false // an IPv6 address without brackets
	}
	number, err := strconv.Atoi(port)
	a := Address{Host: host, Port: number}
	if !found || err != nil || a.check() != nil {
		return Address{}, fmt.Errorf("%q: want host:port, such as pilot:15010 or [::1]:15010", text)
	}
	return a, nil
}

// IsIP reports whether Envoy needs no DNS to find the host.
func (a Address) IsIP() bool {
	_, err := netip.ParseAddr(a.Host)
	return err == nil
}

// IsSet tells an address from none.
func (a Address) IsSet() bool { return a != Address{} }

// String is host:port as ParseAddress reads it, empty for none.
func (a Address) String() string {
	switch {
	case !a.IsSet():
		return ""
	case strings.Contains(a.Host, ":"):
		return fmt.Sprintf("[%s]:%d", a.Host, a.Port)
	}
	return fmt.Sprintf("%s:%d", a.Host, a.Port)
}

func (a Address) check() error {
	if a.Host == "" {
		return fmt.Errorf("has no host")
	}
	if a.Port < 1 || a.Port > 65535 {
		return fmt.Errorf("port %d: want 1 to 65535", a.Port)
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// The static clusters beside discovery's, by Istio's names where it has them, for what already refers to them.
const (
	zipkinCluster           = "zipkin"
	openTelemetryCluster    = "opentelemetry"
	metricsServiceCluster   = "envoy_metrics_service"
	accessLogServiceCluster = "envoy_accesslog_service"
	agentAdminCluster       = "agent_admin"
	agentStatusCluster      = "agent_status"
)

// Upstream is a static cluster of one host, beside discovery's.
type Upstream struct {
	Name    string
	Address Address
	GRPC    bool // speaks HTTP/2
}

// Upstreams are those that the parameters name, and the agent's own where a listener leads there.
func (p Params) Upstreams() []Upstream {
	loopback := func(port int, wanted bool) Address {
		if !wanted {
			return Address{}
		}
		return Address{Host: "127.0.0.1", Port: port}
	}
	var out []Upstream
	for _, u := range []Upstream{
		{Name: zipkinCluster, Address: p.Zipkin},
		{Name: openTelemetryCluster, Address: p.OpenTelemetry, GRPC: true},
		{Name: metricsServiceCluster, Address: p.MetricsService, GRPC: true},
		{Name: accessLogServiceCluster, Address: p.AccessLogService, GRPC: true},
		{Name: agentAdminCluster, Address: loopback(p.AdminPort, p.PrometheusPort != 0)},
		{Name: agentStatusCluster, Address: loopback(p.StatusPort, p.ReadinessPort != 0)},
	} {
		if u.Address.IsSet() {
			out = append(out, u)
		}
	}
	return out
}

// Listener leads one path of a port to the agent.
type Listener struct {
	Name    string // of the listener, and the prefix of its stats
	Port    int
	Path    string
	Cluster string
}

// Listeners are those that have a port.
func (p Params) Listeners() []Listener {
	var out []Listener
	for _, l := range []Listener{
		{"agent_prometheus", p.PrometheusPort, "/stats/prometheus", agentAdminCluster},
		{"agent_readiness", p.ReadinessPort, "/healthz/ready", agentStatusCluster},
	} {
		if l.Port != 0 {
			out = append(out, l)
		}
	}
	return out
}

// Validate reports every fault of the parameters that would give no bootstrap, or one that does not do what it says.
func (p Params) Validate() error {
	faults := []error{p.Discovery.validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if err := p.Node.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("node: %w", err))
	}
	for _, service := range []struct {
		name    string
		address Address
	}{
		{"Zipkin", p.Zipkin},
		{"OpenTelemetry", p.OpenTelemetry},
		{"statsd", p.Statsd},
		{"metrics service", p.MetricsService},
		{"access log service", p.AccessLogService},
	} {
		if err := service.address.check(); service.address.IsSet() && err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", service.name, err))
		}
	}
	check(p.Discovery.TLS == nil || p.SecretsSocket != "",
		"discovery: TLS: has no socket of the secrets")
	check(!p.Zipkin.IsSet() || !p.OpenTelemetry.IsSet(),
		"spans go to Zipkin %s or to OpenTelemetry %s: name one", p.Zipkin, p.OpenTelemetry)
	check(!p.Statsd.IsSet() || p.Statsd.IsIP(),
		"statsd %s: want an IP address, for Envoy looks up no name here", p.Statsd)
	check(p.PrometheusPort == 0 || p.AdminPort != 0,
		"the Prometheus listener leads to the agent's admin port, and there is none")
	check(p.ReadinessPort == 0 || p.StatusPort != 0,
		"the readiness listener leads to the agent's status port, and there is none")
	faults = append(faults, p.ports()...)
	return errors.Join(faults...)
}

// ports holds that each is a port, and that no two are the same: the host would deal out their connections.
func (p Params) ports() (faults []error) {
	taken := map[int]string{}
	for _, port := range []struct {
		name   string
		number int
	}{
		{"admin", p.AdminPort},
		{"status", p.StatusPort},
		{"Prometheus", p.PrometheusPort},
		{"readiness", p.ReadinessPort},
	} {
		other, both := taken[port.number]
		switch {
		case port.number == 0:
		case port.number < 0 || port.number > 65535:
			faults = append(faults, fmt.Errorf("%s port %d: want 1 to 65535, or 0 for none", port.name, port.number))
		case both:
			faults = append(faults, fmt.Errorf("%s port %d: is the %s port already", port.name, port.number, other))
		default:
			taken[port.number] = port.name
		}
	}
	return faults
}

func (d Discovery) validate() error {
	var faults []error
	if err := d.check(); err != nil {
		faults = append(faults, err)
	}
	if d.ConnectTimeout < time.Millisecond {
		faults = append(faults, fmt.Errorf("connect timeout %s: want 1ms or more", d.ConnectTimeout))
	}
	if d.Variant != "" && d.Variant != SotW && d.Variant != Delta {
		faults = append(faults, fmt.Errorf("variant %q: want sotw or delta", d.Variant))
	}
	if d.TLS != nil {
		faults = append(faults, d.TLS.validate())
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	return nil
}

// validate holds that nothing is empty: without a SAN every certificate of the same roots would be discovery's.
func (t TLS) validate() error {
	var faults []error
	for _, field := range []struct{ name, value string }{
		{"certificate chain", t.Chain},
		{"private key", t.Key},
		{"root certificates", t.Roots},
		{"subject alternative name", t.SAN},
	} {
		if field.value == "" {
			faults = append(faults, fmt.Errorf("TLS: has no %s", field.name))
		}
	}
	return errors.Join(faults...)
}
