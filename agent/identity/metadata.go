package identity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

// MetaPrefix begins the variables that are node metadata: ISTIO_META_X=v sets X to the text v.
const (
	MetaPrefix = "ISTIO_META_"
	jsonPrefix = "ISTIO_METAJSON_" // ISTIO_METAJSON_X={…}: an object, merged
)

// metadataLimit keeps a node within the size of a request that discovery accepts: Envoy sends the node with the first
// request of each stream.
const metadataLimit = 512 << 10

// Pod holds the workload's data from files of Kubernetes' downward API.
type Pod struct{ Labels, Annotations map[string]string }

// Stray returns the namespace with which the name of a node ends, as Kubernetes makes names, NAME.NAMESPACE, and whether that is another one than the node's
// own. In domains without namespaces, such as Consul's, names say nothing.
func Stray(id node.ID, namespace string) (said string, stray bool) {
	_, said, found := strings.Cut(id.Name, ".")
	return said, found && !strings.Contains(said, ".") && namespaceIn(id.Domain) != "" && said != namespace
}

// Describe returns the node metadata: the pod's labels and annotations, overridden by the environment. Labels and
// annotations are objects under their own key; any other ISTIO_METAJSON_ object is merged into the metadata itself, as
// in pilot-agent.
func Describe(id node.ID, p Pod, env Environment, addresses []netip.Addr) (node.Metadata, error) {
	raw := map[string]any{}
	for key, variable := range map[string]string{
		"NAMESPACE": "POD_NAMESPACE", "POD_NAME": "POD_NAME", "SERVICE_ACCOUNT": "SERVICE_ACCOUNT",
	} {
		if value := env[variable]; value != "" {
			raw[key] = value
		}
	}
	for key, values := range map[string]map[string]string{"LABELS": p.Labels, "ANNOTATIONS": p.Annotations} {
		if len(values) > 0 {
			raw[key] = objectOf(values)
		}
	}
	config, err := ReadProxyConfig(env)
	if err != nil {
		return node.Metadata{}, err
	}
	if len(config) > 0 {
		raw[ProxyConfigVariable] = map[string]any(config)
	}
	said, _ := config.metadata()
	for key, value := range said {
		raw[key] = value
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if key, ok := strings.CutPrefix(name, MetaPrefix); ok && key != "" {
			raw[key] = env[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if err := mergeObject(raw, name, env[name]); err != nil {
			return node.Metadata{}, err
		}
	}
	if err := bounded(raw); err != nil {
		return node.Metadata{}, err
	}
	metadata, err := node.ParseMetadata(raw)
	if err != nil {
		return node.Metadata{}, fmt.Errorf("environment %s*: %w", MetaPrefix, err)
	}
	switch metadata.Reports {
	case "", node.ReportRequests, node.ReportFailures, node.ReportNothing:
	default: // discovery takes any word, which may be that of a newer agent
		return node.Metadata{}, fmt.Errorf("environment %sPILOTLIGHT_REPORTS: is %q, want %s, %s or %s", MetaPrefix, metadata.Reports,
			node.ReportRequests, node.ReportFailures, node.ReportNothing)
	}
	metadata.Namespace = cmp.Or(metadata.Namespace, namespaceIn(id.Domain), "default")
	if metadata.Extra == nil {
		metadata.Extra = map[string]any{}
	}
	if _, set := metadata.Extra["CONFIG_NAMESPACE"]; !set {
		metadata.Extra["CONFIG_NAMESPACE"] = metadata.Namespace
	}
	metadata.InstanceIPs = instanceIPs(id.IP, addresses)
	return metadata, nil
}

// namespaceIn returns the namespace of a Kubernetes domain, NAMESPACE.svc.DOMAIN, as Istio reads it; empty for another
// domain, such as service.consul.
func namespaceIn(domain string) string {
	namespace, rest, found := strings.Cut(domain, ".")
	if found && (rest == "svc" || strings.HasPrefix(rest, "svc.")) {
		return namespace
	}
	return ""
}

// mergeObject merges the object of a variable, if the variable's name begins with ISTIO_METAJSON_.
func mergeObject(raw map[string]any, name, value string) error {
	key, ok := strings.CutPrefix(name, jsonPrefix)
	if !ok || key == "" {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(value), &object); err != nil {
		return fmt.Errorf("environment %s: want a JSON object, such as {\"app\":\"reviews\"}: %w", name, err)
	}
	if key != "LABELS" && key != "ANNOTATIONS" {
		maps.Copy(raw, object)
		return nil
	}
	into, _ := raw[key].(map[string]any)
	if into == nil {
		into = map[string]any{}
	}
	maps.Copy(into, object)
	raw[key] = into
	return nil
}

func objectOf(values map[string]string) map[string]any {
	out := make(map[string]any, len(values))
	for k, v := range values {
		out[k] = v
	}
	return out
}

// bounded returns an error for metadata that is too large for discovery, with the name of the largest value.
func bounded(raw map[string]any) error {
	total, greatest, size := 0, "", 0
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		text, err := json.Marshal(raw[key])
		if err != nil {
			return fmt.Errorf("node metadata %s: %w", key, err)
		}
		total += len(key) + len(text)
		if len(text) > size {
			greatest, size = key, len(text)
		}
	}
	if total > metadataLimit {
		return fmt.Errorf("node metadata: has %d bytes, want at most %d; the greatest is %s with %d",
			total, metadataLimit, greatest, size)
	}
	return nil
}

// instanceIPs returns the proxy's own address and all others of the host.
func instanceIPs(own string, addresses []netip.Addr) []string {
	out := []string{own}
	for _, a := range addresses {
		if s := a.String(); s != own {
			out = append(out, s)
		}
	}
	return out
}

// ParseDownward parses labels or annotations as the downward API writes them to a file: lines of name="value", with the
// value quoted as in Go.
func ParseDownward(text string) (map[string]string, error) {
	out := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, quoted, found := strings.Cut(line, "=")
		value, err := strconv.Unquote(quoted)
		if !found || name == "" || err != nil {
			return nil, fmt.Errorf(`line %d: is %.40q, want name="value"`, number, line)
		}
		out[name] = value
	}
	return out, nil
}

// Annotations of a Pod that leave inbound traffic out of its redirection, by Istio's names.
const (
	includeInbound    = "traffic.sidecar.istio.io/includeInboundPorts"
	excludeInbound    = "traffic.sidecar.istio.io/excludeInboundPorts"
	excludeInterfaces = "traffic.sidecar.istio.io/excludeInterfaces"
)

// Redirected returns which ports of the workload are to be reached through Envoy only, by what the proxy says of itself; nil if it does not
// say so of any, as where all traffic of an interface is left out. own are ports of the agent and of Envoy.
func Redirected(id node.ID, m node.Metadata, own ...int) func(port uint16) bool {
	said, _ := m.Extra["ANNOTATIONS"].(map[string]any)
	text := func(key string) (string, bool) {
		value, set := said[key].(string)
		return strings.TrimSpace(value), set
	}
	if interfaces, _ := text(excludeInterfaces); interfaces != "" {
		return nil
	}
	if id.Role != node.Sidecar || m.InterceptionMode != node.Redirect && m.InterceptionMode != node.TProxy {
		return nil
	}
	included, only := text(includeInbound)
	if only = only && included != "*"; only && included == "" {
		return nil
	}
	excluded, _ := text(excludeInbound)
	take, leave := portsIn(included), portsIn(excluded)
	return func(port uint16) bool {
		return !slices.Contains(own, int(port)) && !leave.has(port) && (!only || take.has(port))
	}
}

// ranges are ranges of ports, from and to.
type ranges [][2]uint64

func (r ranges) has(port uint16) bool {
	return slices.ContainsFunc(r, func(one [2]uint64) bool { return one[0] <= uint64(port) && uint64(port) <= one[1] })
}

// portsIn reads a list of ports and ranges, 80,8000-8010. What is none is left out: pod-init refuses it.
func portsIn(list string) (out ranges) {
	for item := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 == nil && err2 == nil {
			out = append(out, [2]uint64{from, to})
		}
	}
	return out
}
