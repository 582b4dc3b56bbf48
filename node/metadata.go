package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// InterceptionMode is how traffic reaches the proxy: Istio's INTERCEPTION_MODE.
type InterceptionMode string

const (
	Redirect InterceptionMode = "REDIRECT" // iptables or nftables REDIRECT, the default
	TProxy   InterceptionMode = "TPROXY"   // transparent, the client's address is kept
	None     InterceptionMode = "NONE"     // nothing is intercepted: listeners bind, clients name the proxy
)

// AgentSDS is what a proxy's agent serves by SDS, behind the static cluster sds-grpc of the bootstrap. A proxy that does not
// say has an agent of Istio's, or none.
type AgentSDS string

const (
	SDSFiles AgentSDS = "files" // the workload's certificate, and what file-cert: and file-root: name
	SDSNone  AgentSDS = "none"  // the bootstrap has no such cluster
)

// Reports is what discovery's listeners report to a proxy's agent by access logs, if the bootstrap has the cluster agent_records. The agent
// gives the counts of requests Istio's names.
type Reports string

const (
	ReportRequests Reports = "requests" // failed requests, and counts of all
	ReportFailures Reports = "failures" // failed requests
	ReportNothing  Reports = "none"     // as if it is not set, but by an agent that is asked for it
)

// Metadata is what a proxy tells about itself beside its ID, by Istio's keys. A key that has no field here stays in
// Extra and reaches Envoy unchanged.
type Metadata struct {
	Namespace        string            // NAMESPACE, where the workload lives and short names resolve
	Labels           map[string]string // LABELS of the workload; selectors match them
	InstanceIPs      []string          // INSTANCE_IPS, comma-separated on the wire; the node ID's IP comes first
	InterceptionMode InterceptionMode  // INTERCEPTION_MODE
	HTTPProxyPort    int               // HTTP_PROXY_PORT on loopback for outbound HTTP, 0 for none; a string on the wire
	AgentSDS         AgentSDS          // PILOTLIGHT_SDS
	Certificate      bool              // PILOTLIGHT_CERTIFICATE: the agent serves the workload's certificate and roots by SDS, or will; false is not written
	Reports          Reports           // PILOTLIGHT_REPORTS
	Said             Said              // PILOTLIGHT_VERSION, PILOTLIGHT_BYPASSED
	Extra            map[string]any    // every other key; JSON values only
}

// Map returns the metadata as Envoy's node.metadata holds it: JSON values by key, without the unset ones.
func (m Metadata) Map() map[string]any {
	out := map[string]any{}
	maps.Copy(out, m.Extra)
	set := func(key string, value any, present bool) {
		if present {
			out[key] = value
		}
	}
	set("NAMESPACE", m.Namespace, m.Namespace != "")
	set("LABELS", anyMap(m.Labels), len(m.Labels) > 0)
	set("INSTANCE_IPS", strings.Join(m.InstanceIPs, ","), len(m.InstanceIPs) > 0)
	set("INTERCEPTION_MODE", string(m.InterceptionMode), m.InterceptionMode != "")
	set("PILOTLIGHT_SDS", string(m.AgentSDS), m.AgentSDS != "")
	set("PILOTLIGHT_CERTIFICATE", "true", m.Certificate)
	set("PILOTLIGHT_REPORTS", string(m.Reports), m.Reports != "")
	for key, value := range m.Said.Map() {
		out[key] = value
	}
	set("HTTP_PROXY_PORT", strconv.Itoa(m.HTTPProxyPort), m.HTTPProxyPort != 0)
	return out
}

// ParseMetadata reads what Map wrote, from a decoded JSON object or from a protobuf Struct's AsMap. An error names
// the key; nothing is half-read.
func ParseMetadata(in map[string]any) (Metadata, error) {
	p := parser{extra: maps.Clone(in)}
	m := Metadata{
		Namespace:        p.text("NAMESPACE"),
		Labels:           p.labels("LABELS"),
		InstanceIPs:      p.list("INSTANCE_IPS"),
		InterceptionMode: p.mode("INTERCEPTION_MODE"),
		HTTPProxyPort:    p.port("HTTP_PROXY_PORT"),
		AgentSDS:         AgentSDS(p.text("PILOTLIGHT_SDS")),
		Certificate:      p.text("PILOTLIGHT_CERTIFICATE") == "true",
		Reports:          Reports(p.text("PILOTLIGHT_REPORTS")),
		Said:             Said{Version: p.text(versionKey), Bypassed: p.text(bypassedKey)},
	}
	if len(p.extra) > 0 {
		m.Extra = p.extra
	}
	if p.err != nil {
		return Metadata{}, p.err
	}
	return m, nil
}

func anyMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}

// parser takes known keys out of extra and keeps the first fault.
type parser struct {
	extra map[string]any
	err   error
}

func (p *parser) take(key string) (any, bool) {
	v, ok := p.extra[key]
	delete(p.extra, key)
	return v, ok && v != nil
}

func (p *parser) fail(key string, found any, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("node metadata %s: is %#v, want %s", key, found, want)
	}
}

// text accepts numbers and booleans as well: an environment variable knows no types, JSON metadata does.
func (p *parser) text(key string) string {
	switch v, ok := p.take(key); v := v.(type) {
	case string:
		return v
	case float64, int, bool:
		return fmt.Sprint(v)
	default:
		if ok {
			p.fail(key, v, "a string")
		}
		return ""
	}
}

func (p *parser) list(key string) []string {
	s := p.text(key)
	if s == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(s, ","), func(s string) bool { return s == "" })
}

func (p *parser) port(key string) int {
	s := p.text(key)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		p.fail(key, s, "a port, 1 to 65535")
		return 0
	}
	return n
}

func (p *parser) mode(key string) InterceptionMode {
	switch mode := InterceptionMode(p.text(key)); mode {
	case "", Redirect, TProxy, None:
		return mode
	default:
		p.fail(key, string(mode), "REDIRECT, TPROXY or NONE")
		return ""
	}
}

func (p *parser) labels(key string) map[string]string {
	v, ok := p.take(key)
	if !ok {
		return nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		p.fail(key, v, "an object of strings")
		return nil
	}
	out := make(map[string]string, len(object))
	for k, v := range object {
		s, ok := v.(string)
		if !ok {
			p.fail(key+"."+k, v, "a string")
		}
		out[k] = s
	}
	return out
}

// Keys of what an agent says of itself and of its pod: see Said.
const (
	versionKey  = "PILOTLIGHT_VERSION"
	bypassedKey = "PILOTLIGHT_BYPASSED"
)

// Said is what an agent adds to the node of each stream to discovery that it relays. It is in no bootstrap, which an Envoy keeps for
// life: meanwhile another image of the agent may have taken the Envoy over, and a redirection may have come or gone.
type Said struct {
	Version  string // PILOTLIGHT_VERSION, of the agent: "v0.2.0", "(devel)"
	Bypassed string // PILOTLIGHT_BYPASSED: a port of the program, and a client that reaches it past Envoy: "8080 10.0.0.7"; empty for none that was seen
}

// Map returns the metadata, by key, without what is not said.
func (s Said) Map() map[string]string {
	out := map[string]string{}
	for key, value := range map[string]string{versionKey: s.Version, bypassedKey: s.Bypassed} {
		if value != "" {
			out[key] = value
		}
	}
	return out
}

// reserved are variables of an agent that runs beside a Pod's program: those that injection sets, those that would give
// the proxy another identity than its Pod's, and those that change how programs are started: pod-init runs as root.
var reserved = []string{
	"POD_NAME", "POD_NAMESPACE", "INSTANCE_IP", "HOST_IP", "SERVICE_ACCOUNT", "PROXY_CONFIG", "ISTIO_KUBE_APP_PROBERS", "ISTIO_PROMETHEUS_ANNOTATIONS",
	"ISTIO_META_CLUSTER_ID", "ISTIO_META_INTERCEPTION_MODE", "ISTIO_META_NODE_NAME", "ISTIO_META_NAMESPACE", "ISTIO_META_SERVICE_ACCOUNT",
	"PILOTLIGHT_ID", "PILOTLIGHT_IP", "PILOTLIGHT_SERVICEREGISTRY", "PILOTLIGHT_DOMAIN", "PILOTLIGHT_TRUST_DOMAIN", "PILOTLIGHT_STATUS_PORT",
	"PILOTLIGHT_DISCOVERY_ADDRESS", "PILOTLIGHT_SERVICE_CLUSTER", "PILOTLIGHT_PROXY_LOG_LEVEL",
	"PATH", "BASH_ENV", "GLIBC_TUNABLES",
}

// Reserved reports whether the configuration of an injected proxy must not set a variable of its agent.
func Reserved(variable string) bool {
	return slices.Contains(reserved, variable) || strings.HasPrefix(variable, "LD_")
}
