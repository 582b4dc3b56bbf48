package xds

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

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
