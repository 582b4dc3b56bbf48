package xds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// Proxy describes one Envoy by its node.
type Proxy struct {
	ID       node.ID
	Metadata node.Metadata
	Locality model.Locality
	Topology Topology // of a gateway
}

// ParseProxy parses Envoy's node. An error names the invalid part. A sidecar without an interception mode uses
// REDIRECT, Istio's default.
func ParseProxy(n *corev3.Node) (Proxy, error) {
	id, err := node.ParseID(n.GetId())
	if err != nil {
		return Proxy{}, err
	}
	metadata, err := node.ParseMetadata(n.GetMetadata().AsMap())
	if err != nil {
		return Proxy{}, fmt.Errorf("node %s: %w", id, err)
	}
	metadata.InterceptionMode = cmp.Or(metadata.InterceptionMode, node.Redirect)
	var topology Topology
	if id.Role != node.Sidecar {
		if topology, err = parseTopology(metadata.Extra); err != nil {
			return Proxy{}, fmt.Errorf("node %s: %w", id, err)
		}
	}
	where := n.GetLocality()
	return Proxy{ID: id, Metadata: metadata, Topology: topology, Locality: model.Locality{
		Region: where.GetRegion(), Zone: where.GetZone(), SubZone: where.GetSubZone(),
	}}, nil
}

// maxOwnAddresses is how many of a proxy's addresses are compared with those of workloads.
const maxOwnAddresses = 32

// Claim returns the facts by which the proxy's own workload is found. account is the service account that its
// certificate proves, "" for none. The name of its Pod is in its metadata, or in its ID: POD.NAMESPACE.
func (p Proxy) Claim(account string) model.Claim {
	c := model.Claim{
		Namespace: p.Namespace(), Name: p.text("POD_NAME"), Cluster: p.text("CLUSTER_ID"), Network: p.text("NETWORK"), Account: account,
	}
	if pod, found := strings.CutSuffix(p.ID.Name, "."+c.Namespace); found && c.Name == "" {
		c.Name = pod
	}
	for _, text := range append([]string{p.ID.IP}, p.Metadata.InstanceIPs...) {
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(c.Addresses, ip.Unmap()) && len(c.Addresses) < maxOwnAddresses {
			c.Addresses = append(c.Addresses, ip.Unmap())
		}
	}
	return c
}

// Namespace returns the namespace of the workload: from its metadata, else the first part of its DNS domain.
func (p Proxy) Namespace() string {
	if p.Metadata.Namespace != "" {
		return p.Metadata.Namespace
	}
	namespace, _, _ := strings.Cut(p.domain(), ".svc.")
	return namespace
}

// domain returns the DNS domain of the proxy in the form of hosts: in lower case, without a dot at its end.
func (p Proxy) domain() string { return strings.ToLower(strings.TrimSuffix(p.ID.Domain, ".")) }

// text returns the value of a metadata key that has no field of its own; "" if it is not a string.
func (p Proxy) text(key string) string {
	s, _ := p.Metadata.Extra[key].(string)
	return s
}

// config returns the proxy's own ProxyConfig, or nil if its metadata has none or it is malformed.
func (p Proxy) config() map[string]any {
	config, _ := p.Metadata.Extra["PROXY_CONFIG"].(map[string]any)
	return config
}

// silentRelease is the release whose agents said no version yet. PILOTLIGHT_SDS distinguishes them from Istio's.
// Later ones say no version either where Envoy connects without their relay, but have PILOTLIGHT_REPORTS.
const silentRelease = "v0.1"

// Agent returns what the proxy's agent says of itself and of its pod.
func (p Proxy) Agent() model.Agent {
	m := p.Metadata
	a := model.Agent{Version: m.Said.Version, Bypassed: m.Said.Bypassed}
	if m.AgentSDS != "" && m.Reports == "" {
		a.Version = cmp.Or(a.Version, silentRelease)
	}
	return a
}

// View holds all inputs of a proxy's configuration other than the mesh. It is comparable: proxies with equal views, or
// with one equal half, share the resources that were built for it.
type View struct {
	Outbound Outbound
	Inbound  Inbound
}

// Outbound holds the inputs of a proxy's outbound resources; most proxies of a namespace have the same.
type Outbound struct {
	Gateway       bool // role router or ingress: traffic from outside, by the gateways that select the proxy
	Mode          node.InterceptionMode
	Namespace     string
	Domain        string // DNS domain that completes short host names: "default.svc.cluster.local"
	HTTPProxyPort int    // on 127.0.0.1, 0 for none
	Family        Family // of the proxy's addresses
	Locality      model.Locality
	Node          string // of Kubernetes, on which the proxy runs
	Network       string
	Cluster       string // of the proxy; it may give services addresses of its own
	Identity      Identity
	Topology      Topology // of a gateway
	Proxyless     bool     // the client is the gRPC library of a program
	Unprivileged  bool     // it cannot bind ports below 1024
	Own           model.OwnPorts
	AutoAddresses bool // DNS answers the automatic addresses of services without an address
	AnswersDNS    bool // the proxy answers DNS itself
	HTTP10        bool // it serves HTTP/1.0
	Reports       node.Reports
	own           string // its addresses, comma-separated; In keeps those that some endpoint of another namespace has
	labels        string // JSON with sorted keys, since a map is not comparable
}

// Inbound holds the inputs of the resources for traffic to the proxy's own workload.
type Inbound struct {
	Gateway   bool // a gateway has no workload
	Proxyless bool // the workload is a gRPC server without a proxy
	Mode      node.InterceptionMode
	Namespace string
	IP        string // the proxy's own, to which its listeners bind
	ips       string // all of the proxy's addresses, comma-separated
	labels    string

	Unprivileged bool
	HTTP10       bool // as in Outbound
	Own          model.OwnPorts
	Reports      node.Reports
	Identity
}

// ViewOf returns the inputs of p's configuration.
func ViewOf(p Proxy) View {
	gateway := p.ID.Role != node.Sidecar
	labels := encodeLabels(p.Metadata.Labels)
	ips := append([]string{p.ID.IP}, p.Metadata.InstanceIPs...)
	all := strings.Join(ips, ",")
	unprivileged, http10, own := p.text("UNPRIVILEGED_POD") == "true", p.text("HTTP10") == "1", p.ownPorts()
	return View{
		Outbound: Outbound{
			Gateway: gateway, Mode: p.Metadata.InterceptionMode, Namespace: p.Namespace(), Domain: p.domain(),
			HTTPProxyPort: p.Metadata.HTTPProxyPort, Family: familyOf(ips), Locality: p.Locality, Node: p.text("NODE_NAME"),
			Network:   p.text("NETWORK"),
			Cluster:   p.text("CLUSTER_ID"),
			Identity:  p.identity(),
			Topology:  p.Topology,
			Proxyless: p.Proxyless(), Unprivileged: unprivileged, Own: own, Reports: p.Metadata.Reports,
			AutoAddresses: p.capturesDNS() && p.text("DNS_AUTO_ALLOCATE") != "false",
			AnswersDNS:    p.capturesDNS() && p.text("DNS_FILTER") == "true",
			HTTP10:        http10,
			own:           all,
			labels:        labels,
		},
		Inbound: Inbound{
			Gateway: gateway, Proxyless: p.Proxyless(), Mode: p.Metadata.InterceptionMode, Namespace: p.Namespace(), IP: p.ID.IP,
			ips: all, labels: labels, Unprivileged: unprivileged, HTTP10: http10, Own: own, Reports: p.Metadata.Reports, Identity: p.identity(),
		},
	}
}

// Proxy returns the properties of the proxy that the notes of the mesh use.
func (v View) Proxy() model.Proxy {
	return model.Proxy{
		Namespace: v.Outbound.Namespace, Labels: v.Inbound.Labels(), Cluster: v.Outbound.Cluster,
		Gateway: v.Outbound.Gateway, Proxyless: v.Outbound.Proxyless, Binds: v.Outbound.none(),
		HTTPProxy: v.Outbound.HTTPProxyPort != 0, Unprivileged: v.Outbound.Unprivileged, Own: v.Outbound.Own,
		Certificate: v.Outbound.Identity.Certified,
		Addresses:   v.Inbound.addresses(), Domain: v.Outbound.Domain,
	}
}

// DomainFault returns the reason why the short names of a cluster's services do not work for the proxy, "" if they do.
// Gateways do not use short names.
func (v View) DomainFault(d model.Domain) string {
	if v.Outbound.Gateway {
		return ""
	}
	return d.Fault(v.Outbound.Domain)
}

// In returns v without the values that make no difference in m: labels that no selector uses, a namespace and a DNS
// domain that no object names, a cluster that gives no service addresses of its own, a locality that no policy
// reads, and own addresses that are no endpoint of another namespace. Proxies of different workloads, namespaces, clusters and localities then share outbound resources.
func (v Outbound) In(m *model.Mesh) Outbound {
	labels := decodeLabels(v.labels)
	kept := map[string]string{}
	for key := range m.LabelsRead(v.Namespace, v.Gateway) {
		if value, ok := labels[key]; ok {
			kept[key] = value
		}
	}
	v.labels = encodeLabels(kept)
	if !m.ReadsNodes() {
		v.Node = ""
	}
	if !m.ReadsLocalities() {
		v.Locality = model.Locality{}
	}
	v.own = v.claimedIn(m)
	as := m.NamespaceAs
	if v.Gateway {
		as = m.GatewayNamespaceAs
	}
	v.Namespace, v.Domain, v.Cluster = as(v.Namespace), m.DomainAs(v.Domain), m.ClusterAs(v.Cluster)
	return v
}

// ofClusters returns v with only the fields that clusters and endpoints depend on. Views of two namespaces then share
// these without a comparison of the messages.
func (v Outbound) ofClusters() Outbound {
	proxy := 0
	if v.explicit() {
		proxy = 1 // whatever its number
	}
	return Outbound{
		HTTPProxyPort: proxy, Gateway: v.Gateway, Mode: v.Mode, Family: v.Family, Locality: v.Locality, Node: v.Node, Network: v.Network, Identity: v.Identity,
		Proxyless: v.Proxyless, Own: v.Own.Unusual(), own: v.own, labels: v.labels,
	}
}

// Labels returns the workload's labels.
func (v Outbound) Labels() map[string]string { return decodeLabels(v.labels) }

// addresses returns the proxy's own addresses.
func (v Inbound) addresses() []netip.Addr { return parseAddresses(v.ips) }

func parseAddresses(list string) (out []netip.Addr) {
	for own := range strings.SplitSeq(list, ",") {
		if ip, err := netip.ParseAddr(own); err == nil && !slices.Contains(out, ip.Unmap()) {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// Owns reports whether address is one of the proxy's own.
func (v Inbound) Owns(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.Contains(v.addresses(), ip.Unmap())
}

// Labels returns the workload's labels.
func (v Inbound) Labels() map[string]string { return decodeLabels(v.labels) }

func (v Inbound) family() Family { return familyOf(strings.Split(v.ips, ",")) }

func decodeLabels(text string) map[string]string {
	var labels map[string]string
	_ = json.Unmarshal([]byte(text), &labels) // written by encodeLabels
	return labels
}

func encodeLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	text, _ := json.Marshal(labels) // a map of strings always encodes
	return string(text)
}

// Family is the IP family of a proxy's addresses, and so of its listeners: a pod's traffic is redirected in both
// families.
type Family int

// The families. A proxy without addresses has IPv4.
const (
	IPv4 Family = iota
	IPv6
	DualStack
)

// familyOf returns the family of addresses. IPv6 addresses that every host has, link-local and loopback, count only if
// there are no others.
func familyOf(addresses []string) Family {
	four, six, local := false, false, false
	for _, address := range addresses {
		ip, err := netip.ParseAddr(address)
		switch {
		case err != nil:
		case ip.Unmap().Is4():
			four = true
		case ip.IsLoopback() || ip.IsLinkLocalUnicast():
			local = true
		default:
			six = true
		}
	}
	switch {
	case four && six:
		return DualStack
	case !four && (six || local):
		return IPv6
	default:
		return IPv4
	}
}

// wildcard returns the wildcard address of the proxy's listeners. With both families it is the first of two, see
// further.
func (f Family) wildcard() string {
	if f == IPv6 {
		return "::"
	}
	return "0.0.0.0"
}

func (f Family) loopback() string {
	if f == IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}

// further returns the additional addresses of a listener at the wildcard address and port.
func (f Family) further(port uint32) []*listenerv3.AdditionalAddress {
	if f != DualStack {
		return nil
	}
	return []*listenerv3.AdditionalAddress{{Address: socket("::", port)}}
}

// loopbacks returns the additional addresses of a listener at the loopback address and port.
func (f Family) loopbacks(port uint32) []*listenerv3.AdditionalAddress {
	if f != DualStack {
		return nil
	}
	return []*listenerv3.AdditionalAddress{{Address: socket("::1", port)}}
}

// lookup returns the family to which names are resolved, for DNS clusters and for the DNS cache.
func (f Family) lookup() (commondnsv3.DnsLookupFamily, clusterv3.Cluster_DnsLookupFamily) {
	if f == IPv6 {
		return commondnsv3.DnsLookupFamily_AUTO, clusterv3.Cluster_AUTO // IPv6 if there is any
	}
	return commondnsv3.DnsLookupFamily_V4_PREFERRED, clusterv3.Cluster_V4_PREFERRED
}

// Source addresses by which the pod's iptables rules recognise connections from the proxy to its workload.
const (
	passthroughSource  = "127.0.0.6"
	passthroughSource6 = "::6"
)

// source returns the source addresses of connections to the workload. Envoy uses the address of the family that it
// connects to.
func (f Family) source() *corev3.BindConfig {
	from := func(address string) *corev3.SocketAddress { return socket(address, 0).GetSocketAddress() }
	switch f {
	case IPv6:
		return &corev3.BindConfig{SourceAddress: from(passthroughSource6)}
	case DualStack:
		return &corev3.BindConfig{
			SourceAddress:        from(passthroughSource),
			ExtraSourceAddresses: []*corev3.ExtraSourceAddress{{Address: from(passthroughSource6)}},
		}
	default:
		return &corev3.BindConfig{SourceAddress: from(passthroughSource)}
	}
}
