package xds

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
)

// View is everything that a proxy's configuration depends on beside the mesh. It is comparable: proxies with equal
// views, or with one equal half, share what was built for it.
type View struct {
	Outbound Outbound
	Inbound  Inbound
}

// Outbound is what a proxy's way to others depends on; most proxies of a namespace share it.
type Outbound struct {
	Domain        string // DNS domain, "default.svc.cluster.local", which short host names are completed with
	HTTPProxyPort int    // on 127.0.0.1, 0 for none
	Proxyless     bool   // the proxy is a program's own gRPC
}

// Inbound is what the way to the proxy's own workload depends on.
type Inbound struct {
	Namespace string
	IP        string // the proxy's own, where its listeners bind
	ips       string // all of them, comma-separated
	labels    string // JSON with sorted keys, since a map is not comparable
}

// ViewOf returns what p's configuration depends on.
func ViewOf(p Proxy) View {
	return View{
		Outbound: Outbound{Domain: p.ID.Domain, HTTPProxyPort: p.Metadata.HTTPProxyPort, Proxyless: p.Proxyless()},
		Inbound: Inbound{
			Namespace: p.Namespace(),
			IP:        p.ID.IP,
			ips:       strings.Join(append([]string{p.ID.IP}, p.Metadata.InstanceIPs...), ","),
			labels:    encodeLabels(p.Metadata.Labels),
		},
	}
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
func (v Inbound) Labels() map[string]string {
	var labels map[string]string
	_ = json.Unmarshal([]byte(v.labels), &labels) // encodeLabels wrote it
	return labels
}

func encodeLabels(labels map[string]string) string {
	text, _ := json.Marshal(labels) // a map of strings always encodes
	return string(text)
}
