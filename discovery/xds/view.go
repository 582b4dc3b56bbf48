package xds

import (
	"cmp"
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
	IPv6          bool   // the proxy has no IPv4 address
	Locality      model.Locality
	Network       string
	Identity      Identity
	Proxyless     bool   // the proxy is a program's own gRPC
	labels        string // JSON with sorted keys, since a map is not comparable
}

// Identity is where a proxy has its certificate of the mesh.
type Identity struct{ Certificate, Key, Root string }

// Inbound is what the way to the proxy's own workload depends on.
type Inbound struct {
	Gateway   bool // a gateway has no workload
	Mode      node.InterceptionMode
	Namespace string
	IP        string // the proxy's own, where its listeners bind
	ips       string // all of them, comma-separated
	labels    string
}

// ViewOf returns what p's configuration depends on.
func ViewOf(p Proxy) View {
	gateway := p.ID.Role != node.Sidecar
	labels := encodeLabels(p.Metadata.Labels)
	ips := append([]string{p.ID.IP}, p.Metadata.InstanceIPs...)
	return View{
		Outbound: Outbound{
			Gateway: gateway, Mode: p.Metadata.InterceptionMode, Namespace: p.Namespace(), Domain: p.ID.Domain,
			HTTPProxyPort: p.Metadata.HTTPProxyPort, IPv6: onlyIPv6(ips), Locality: p.Locality,
			Network: p.text("NETWORK"),
			Identity: Identity{
				Certificate: cmp.Or(p.text("TLS_CLIENT_CERT_CHAIN"), "/etc/certs/cert-chain.pem"),
				Key:         cmp.Or(p.text("TLS_CLIENT_KEY"), "/etc/certs/key.pem"),
				Root:        cmp.Or(p.text("TLS_CLIENT_ROOT_CERT"), "/etc/certs/root-cert.pem"),
			},
			Proxyless: p.Proxyless(),
			labels:    labels,
		},
		Inbound: Inbound{
			Gateway: gateway, Mode: p.Metadata.InterceptionMode, Namespace: p.Namespace(), IP: p.ID.IP,
			ips: strings.Join(ips, ","), labels: labels,
		},
	}
}

// In returns v without what makes no difference in m: labels that nothing selects by. Proxies of different workloads
// then share what they may call.
func (v Outbound) In(m *model.Mesh) Outbound {
	labels := decodeLabels(v.labels)
	kept := map[string]string{}
	for key := range m.LabelsRead(v.Namespace, v.Gateway) {
		if value, ok := labels[key]; ok {
			kept[key] = value
		}
	}
	v.labels = encodeLabels(kept)
	return v
}

// Labels returns the workload's labels.
func (v Outbound) Labels() map[string]string { return decodeLabels(v.labels) }

func (v Outbound) wildcard() string { return wildcard(v.IPv6) }

// wildcard is the address that stands for every one of a proxy.
func wildcard(ipv6 bool) string {
	if ipv6 {
		return "::"
	}
	return "0.0.0.0"
}

func (v Outbound) loopback() string {
	if v.IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}

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

func (v Inbound) ipv6() bool { return onlyIPv6(strings.Split(v.ips, ",")) }

// onlyIPv6 holds for addresses of which some are IPv6 and none is IPv4.
func onlyIPv6(addresses []string) bool {
	six := false
	for _, address := range addresses {
		ip, err := netip.ParseAddr(address)
		if err == nil && ip.Unmap().Is4() {
			return false
		}
		six = six || err == nil
	}
	return six
}

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
