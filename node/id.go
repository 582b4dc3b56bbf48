package node

import (
	"fmt"
	"net/netip"
	"strings"
)

// Role is the first part of a node ID: what the proxy does in the mesh.
type Role string

// The roles, by Istio's names. Istio's later versions call an ingress gateway "router" as well; both are accepted.
const (
	Sidecar Role = "sidecar"
	Ingress Role = "ingress"
	Router  Role = "router"
)

// ParseRole returns the role of that name.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case Sidecar, Ingress, Router:
		return r, nil
	}
	return "", fmt.Errorf("role %q: want sidecar, ingress or router", s)
}

// ID identifies a proxy to discovery. Its text is Istio's service node, "type~ip~id~domain", for example
// "sidecar~10.1.2.3~reviews-7d4f.default~default.svc.cluster.local".
type ID struct {
	Role   Role
	IP     string // the proxy's own address; must parse for a sidecar
	Name   string // unique in the mesh, "pod.namespace" on Kubernetes
	Domain string // DNS suffix for short host names; may be empty
}

const idShape = "type~ip~id~domain"

// ParseID reads a node ID and says exactly which of its parts is wrong.
func ParseID(s string) (ID, error) {
	parts := strings.Split(s, "~")
	if len(parts) != 4 {
		return ID{}, fmt.Errorf("node ID %q: has %d parts, want 4: %s", s, len(parts), idShape)
	}
	id := ID{Role: Role(parts[0]), IP: parts[1], Name: parts[2], Domain: parts[3]}
	if err := id.Validate(); err != nil {
		return ID{}, fmt.Errorf("node ID %q: %w", s, err)
	}
	return id, nil
}

// Validate reports the first part that could not be sent or read back.
func (id ID) Validate() error {
	if _, err := ParseRole(string(id.Role)); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(id.IP); err != nil && id.Role == Sidecar {
		return fmt.Errorf("ip %q: want an IPv4 or IPv6 address", id.IP)
	}
	if id.Name == "" {
		return fmt.Errorf("id is empty: want a name unique in the mesh")
	}
	for _, part := range []struct{ name, value string }{{"ip", id.IP}, {"id", id.Name}, {"domain", id.Domain}} {
		if strings.Contains(part.value, "~") {
			return fmt.Errorf("%s %q: must not contain ~, which separates the parts", part.name, part.value)
		}
	}
	return nil
}

// String formats the ID as discovery reads it.
func (id ID) String() string {
	return strings.Join([]string{string(id.Role), id.IP, id.Name, id.Domain}, "~")
}
