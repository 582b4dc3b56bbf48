package xds

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

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
