package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

const kubernetes = "Kubernetes"

// registries are the known values of --serviceregistry.
func registries() []string {
	return []string{kubernetes, "Consul", "Eureka", "CloudFoundry", "Config", "Mock", "Other"}
}

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

// waitsForAddress reports whether the registry's rule is to wait for a private address. A pod has its own from its
// first moment.
func (s *settings) waitsForAddress() bool { return s.ip == "" && s.serviceRegistry != kubernetes }

// identify says who the proxy is: by what was set, else by the registry's rule. addresses are the host's, in the order
// of its interfaces. What it works out, it puts into the settings.
func identify(role node.Role, s *settings, env environment, addresses []netip.Addr) (node.ID, error) {
	if s.ip == "" {
		ip, how := addressOf(s.serviceRegistry, addresses)
		if ip == "" {
			return node.ID{}, fmt.Errorf("--ip: not set, and this host has no private address to take: set --ip or INSTANCE_IP")
		}
		s.ip = ip
		s.origins.Derive("ip", how)
	}
	name, domain := registered(s.serviceRegistry, env, s.ip)
	if s.id == "" {
		s.id = name
		s.origins.Derive("id", "as "+s.serviceRegistry+" names it")
	}
	if s.domain == "" {
		s.domain = domain
		s.origins.Derive("domain", "as "+s.serviceRegistry+" names it")
	}
	if s.id == "" {
		return node.ID{}, fmt.Errorf("--id: not set, and under --serviceregistry Kubernetes it is made of POD_NAME %q "+
			"and POD_NAMESPACE %q: set all or --id", env["POD_NAME"], env["POD_NAMESPACE"])
	}
	id := node.ID{Role: role, IP: s.ip, Name: s.id, Domain: s.domain}
	if err := id.Validate(); err != nil {
		return node.ID{}, fmt.Errorf("node ID %s: %w", id, err)
	}
	return id, nil
}

// addressOf takes the first private address. Where there is none, a proxy outside of Kubernetes serves its own host.
func addressOf(registry string, addresses []netip.Addr) (ip, how string) {
	if i := slices.IndexFunc(addresses, netip.Addr.IsPrivate); i >= 0 {
		return addresses[i].String(), "the first private address of this host"
	}
	if registry == kubernetes {
		return "", ""
	}
	return "127.0.0.1", "no private address within " + addressLimit.String()
}

// registered returns how a registry names a proxy and which domain it has there; empty where it cannot say.
func registered(registry string, env environment, ip string) (name, domain string) {
	pod, namespace := env["POD_NAME"], env["POD_NAMESPACE"]
	switch registry {
	case kubernetes:
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

// pilotIdentity is what discovery's certificate must say, unless it was set: istio-pilot's service account, in the
// namespace that discovery's host names.
func (s *settings) discoveryIdentity(host string, env environment) string {
	if s.pilotIdentity != "" {
		return s.pilotIdentity
	}
	var namespace string
	switch labels := strings.Split(host, "."); len(labels) {
	case 1:
		namespace = env["POD_NAMESPACE"]
	case 2:
		namespace = labels[1]
	default:
		namespace = cmp.Or(env["ISTIO_NAMESPACE"], "istio-system")
	}
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/istio-pilot-service-account", s.trustDomain, namespace)
}
