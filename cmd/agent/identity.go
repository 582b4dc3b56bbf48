package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

// registries are the known values of --serviceregistry.
var registries = []string{"Kubernetes", "Consul", "Eureka", "CloudFoundry", "Config", "Mock", "Other"}

// environment is the process's environment by name.
type environment map[string]string

func parseEnvironment(environ []string) environment {
	env := environment{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// identify says who the proxy is: by the flags, else by the environment, else by the registry's rule. addresses are
// the host's, in the order of its interfaces.
func identify(role node.Role, s *settings, env environment, addresses []netip.Addr) (node.ID, error) {
	ip := cmp.Or(s.ip, env["INSTANCE_IP"], firstPrivate(addresses))
	if ip == "" {
		return node.ID{}, fmt.Errorf("--ip: not set, and this host has no private address to take: set --ip or INSTANCE_IP")
	}
	name, domain := registered(s.serviceRegistry, env, ip)
	id := node.ID{Role: role, IP: ip, Name: cmp.Or(s.id, name), Domain: cmp.Or(s.domain, domain)}
	if id.Name == "" {
		return node.ID{}, fmt.Errorf("--id: not set, and under --serviceregistry Kubernetes it is made of POD_NAME %q and POD_NAMESPACE %q: set all or --id",
			env["POD_NAME"], env["POD_NAMESPACE"])
	}
	if err := id.Validate(); err != nil {
		return node.ID{}, fmt.Errorf("node ID %s: %w", id, err)
	}
	return id, nil
}

// registered returns how a registry names a proxy and which domain it has there; empty where it cannot say.
func registered(registry string, env environment, ip string) (name, domain string) {
	pod, namespace := env["POD_NAME"], env["POD_NAMESPACE"]
	switch registry {
	case "Kubernetes":
		if namespace != "" {
			domain = namespace + ".svc.cluster.local"
		}
		if pod != "" && namespace != "" {
			name = pod + "." + namespace
		}
		return name, domain
	case "Consul":
		return ip + ".service.consul", "service.consul"
	}
	return ip, ""
}

// firstPrivate returns the first address that only this network knows, empty for none.
func firstPrivate(addresses []netip.Addr) string {
	if i := slices.IndexFunc(addresses, netip.Addr.IsPrivate); i >= 0 {
		return addresses[i].String()
	}
	return ""
}

// hostAddresses lists the addresses of every interface that is up and not loopback.
func hostAddresses() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var out []netip.Addr
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of interface %s: %w", i.Name, err)
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
				out = append(out, prefix.Addr().Unmap())
			}
		}
	}
	return out, nil
}
