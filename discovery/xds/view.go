package xds

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// View is everything that a proxy's configuration depends on beside the mesh. It is comparable: proxies with equal
// views, or with one equal half, share what was built for it.
type View struct {
	Outbound Outbound
	Inbound  Inbound
}

// Outbound is what a proxy's way to others depends on; most proxies of a namespace share it.
type Outbound struct {
	Gateway       bool // role router or ingress: traffic from outside, by the gateways that select the proxy
	Mode          node.InterceptionMode
	Namespace     string
	Domain        string // DNS domain, "default.svc.cluster.local", which short host names are completed with
	HTTPProxyPort int    // on 127.0.0.1, 0 for none
	Family        Family // of the proxy's addresses
	Locality      model.Locality
	Node          string // of Kubernetes, that it runs on
	Network       string
	Cluster       string // where the proxy runs, which may give services addresses of its own
	Identity      Identity
	Topology      Topology // of a gateway
	Proxyless     bool     // the proxy is a program's own gRPC
	Unprivileged  bool     // it cannot bind ports below 1024
	Own           model.OwnPorts
	AutoAddresses bool   // programs reach a service without an address at one that DNS tells them
	AnswersDNS    bool   // the proxy answers DNS itself
	labels        string // JSON with sorted keys, since a map is not comparable
}

// Inbound is what the way to the proxy's own workload depends on.
type Inbound struct {
	Gateway   bool // a gateway has no workload
	Proxyless bool // the workload is a server of gRPC, and its own proxy
	Mode      node.InterceptionMode
	Namespace string
	IP        string // the proxy's own, where its listeners bind
	ips       string // all of them, comma-separated
	labels    string

	Unprivileged bool
	Own          model.OwnPorts
	AgentSDS     bool // as of Identity
}

// ViewOf returns what p's configuration depends on.
func ViewOf(p Proxy) View {
	gateway := p.ID.Role != node.Sidecar
	labels := encodeLabels(p.Metadata.Labels)
	ips := append([]string{p.ID.IP}, p.Metadata.InstanceIPs...)
	unprivileged, own := p.text("UNPRIVILEGED_POD") == "true", p.ownPorts()
	return View{
		Outbound: Outbound{
			Gateway: gateway, Mode: p.Metadata.InterceptionMode, Namespace: p.Namespace(), Domain: p.ID.Domain,
			HTTPProxyPort: p.Metadata.HTTPProxyPort, Family: familyOf(ips), Locality: p.Locality, Node: p.text("NODE_NAME"),
			Network:   p.text("NETWORK"),
			Cluster:   p.text("CLUSTER_ID"),
			Identity:  p.identity(),
			Topology:  p.Topology,
			Proxyless: p.Proxyless(), Unprivileged: unprivileged, Own: own,
			AutoAddresses: p.capturesDNS() && p.text("DNS_AUTO_ALLOCATE") != "false",
			AnswersDNS:    p.capturesDNS() && p.text("DNS_FILTER") == "true",
			labels:        labels,
		},
		Inbound: Inbound{
			Gateway: gateway, Proxyless: p.Proxyless(), Mode: p.Metadata.InterceptionMode, Namespace: p.Namespace(), IP: p.ID.IP,
			ips: strings.Join(ips, ","), labels: labels, Unprivileged: unprivileged, Own: own, AgentSDS: p.agentSDS(),
		},
	}
}

// Proxy returns the proxy as notes of the mesh look at it.
func (v View) Proxy() model.Proxy {
	return model.Proxy{
		Namespace: v.Outbound.Namespace, Labels: v.Inbound.Labels(), Gateway: v.Outbound.Gateway, Binds: v.Outbound.none(),
		HTTPProxy: v.Outbound.HTTPProxyPort != 0, Unprivileged: v.Outbound.Unprivileged, Own: v.Outbound.Own,
	}
}

// In returns v without what makes no difference in m: labels that nothing selects by, a namespace and a DNS domain that no object
// names, and a cluster that gives no service addresses of its own. Proxies of different workloads, namespaces and clusters then share
// what they may call.
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
	v.Namespace, v.Domain, v.Cluster = m.NamespaceAs(v.Namespace), m.DomainAs(v.Domain), m.ClusterAs(v.Cluster)
	return v
}

// ofClusters returns v without what clusters and endpoints do not depend on. Views of two namespaces then share them without
// a look at what was made.
func (v Outbound) ofClusters() Outbound {
	return Outbound{
		Gateway: v.Gateway, Mode: v.Mode, Family: v.Family, Locality: v.Locality, Node: v.Node, Network: v.Network, Identity: v.Identity,
		Proxyless: v.Proxyless, labels: v.labels,
	}
}

// Labels returns the workload's labels.
func (v Outbound) Labels() map[string]string { return decodeLabels(v.labels) }

// addresses are the proxy's own.
func (v Inbound) addresses() (out []netip.Addr) {
	for own := range strings.SplitSeq(v.ips, ",") {
		if ip, err := netip.ParseAddr(own); err == nil && !slices.Contains(out, ip) {
			out = append(out, ip)
		}
	}
	return out
}

// Owns reports whether address is one of the proxy's own.
func (v Inbound) Owns(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.Contains(v.addresses(), ip)
}

// Labels returns the workload's labels.
func (v Inbound) Labels() map[string]string { return decodeLabels(v.labels) }

func (v Inbound) family() Family { return familyOf(strings.Split(v.ips, ",")) }

func decodeLabels(text string) map[string]string {
	var labels map[string]string
	_ = json.Unmarshal([]byte(text), &labels) // encodeLabels wrote it
	return labels
}

func encodeLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	text, _ := json.Marshal(labels) // a map of strings always encodes
	return string(text)
}
