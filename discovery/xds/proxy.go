package xds

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pilotlight/pilotlight/node"
)

// Proxy is one Envoy, as its node says.
type Proxy struct {
	ID       node.ID
	Metadata node.Metadata
}

// ParseProxy reads Envoy's node. An error says which part is wrong, or what is served instead.
func ParseProxy(n *corev3.Node) (Proxy, error) {
	id, err := node.ParseID(n.GetId())
	if err != nil {
		return Proxy{}, err
	}
	metadata, err := node.ParseMetadata(n.GetMetadata().AsMap())
	if err != nil {
		return Proxy{}, fmt.Errorf("node %s: %w", id, err)
	}
	if id.Role != node.Sidecar {
		return Proxy{}, fmt.Errorf("node %s: role %s is not served, only %s", id, id.Role, node.Sidecar)
	}
	proxy := Proxy{ID: id, Metadata: metadata}
	switch mode := metadata.InterceptionMode; {
	case mode == node.None, proxy.Proxyless():
	case mode == "":
		return Proxy{}, fmt.Errorf("node %s: INTERCEPTION_MODE is unset, which means %s; only %s is served", id, node.Redirect, node.None)
	default:
		return Proxy{}, fmt.Errorf("node %s: INTERCEPTION_MODE %s is not served, only %s", id, mode, node.None)
	}
	return proxy, nil
}

// Namespace is where the workload lives: by its metadata, else the first part of its DNS domain.
func (p Proxy) Namespace() string {
	if p.Metadata.Namespace != "" {
		return p.Metadata.Namespace
	}
	namespace, _, _ := strings.Cut(p.ID.Domain, ".svc.")
	return namespace
}
