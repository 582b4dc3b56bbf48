package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/node"
)

// Kubernetes is the registry whose pods have an address, a name and a namespace from their start.
const Kubernetes = "Kubernetes"

// Registries are the known values of --serviceregistry.
func Registries() []string {
	return []string{Kubernetes, "Consul", "Eureka", "CloudFoundry", "Config", "Mock", "Other"}
}

// Given holds the settings of a proxy's identity. An empty IP, Name or Domain is computed.
type Given struct {
	Role     node.Role
	Registry string // one of Registries
	IP       string
	Name     string // the node ID's third part, unique in the mesh: --id
	Domain   string
	StandIn  bool // a part that cannot be computed gets a stand-in: nothing that runs depends on it
}

// Derived is a setting that was not given, and the value that was computed for it.
type Derived struct {
	Setting string // by the name of its flag: "ip"
	Value   string // in the flag's form
	How     string // "the first private address of this host"
	Needs   string // for a stand-in, what is missing; else empty
}

// AddressLimit is how long a host may take to get a private address. After that it counts as a host without one.
const AddressLimit = 2 * time.Minute

// AwaitsAddress reports whether to wait for a private address if the host has none yet. A pod has its address from its
// start.
func (g Given) AwaitsAddress() bool { return g.IP == "" && g.Registry != Kubernetes && !g.StandIn }

// Identify returns the proxy's node ID: the given parts, and the others by the registry's rule. addresses are the
// host's, in the order of its interfaces. It returns the computed parts even if they are not enough for an ID.
func Identify(g Given, env Environment, addresses []netip.Addr) (id node.ID, derived []Derived, err error) {
	id = node.ID{Role: g.Role, IP: g.IP, Name: g.Name, Domain: g.Domain}
	if id.IP == "" {
		ip, how := addressOf(g.Registry, addresses)
		needs := ""
		switch {
		case ip == "" && !g.StandIn:
			return node.ID{}, nil, errors.New("--ip: " + needsIP)
		case ip == "":
			ip, how, needs = "127.0.0.1", standIn, needsIP
		}
		id.IP = ip
		derived = append(derived, Derived{"ip", ip, how, needs})
	}
	name, domain := registered(g.Registry, env, id.IP)
	if id.Name == "" {
		d := Derived{Setting: "id", Value: name, How: "as " + g.Registry + " names it"}
		if name == "" && g.StandIn {
			d = Derived{"id", id.IP, standIn, needsName(env)}
		}
		id.Name = d.Value
		derived = append(derived, d)
	}
	if id.Domain == "" {
		id.Domain = domain
		derived = append(derived, Derived{Setting: "domain", Value: domain, How: "as " + g.Registry + " names it"})
	}
	if id.Name == "" {
		return node.ID{}, derived, errors.New("--id: " + needsName(env))
	}
	if err := id.Validate(); err != nil {
		return node.ID{}, derived, fmt.Errorf("node ID %s: %w", id, err)
	}
	return id, derived, nil
}

const (
	standIn = "a stand-in" // Derived.How
	needsIP = "not set, and this host has no private address to take: set --ip or INSTANCE_IP"
)

func needsName(env Environment) string {
	return fmt.Sprintf("not set, and under --serviceregistry Kubernetes it is made of POD_NAME %q and POD_NAMESPACE %q: set all or --id",
		env["POD_NAME"], env["POD_NAMESPACE"])
}

// addressOf returns the first private address. If there is none, a proxy outside of Kubernetes gets a loopback address:
// it serves its own host.
func addressOf(registry string, addresses []netip.Addr) (ip, how string) {
	if i := slices.IndexFunc(addresses, netip.Addr.IsPrivate); i >= 0 {
		return addresses[i].String(), "the first private address of this host"
	}
	if registry == Kubernetes {
		return "", ""
	}
	return "127.0.0.1", "no private address within " + AddressLimit.String()
}

// registered returns the name and the domain of a proxy by a registry's rule; empty if they cannot be computed.
func registered(registry string, env Environment, ip string) (name, domain string) {
	pod, namespace := env["POD_NAME"], env["POD_NAMESPACE"]
	switch registry {
	case Kubernetes:
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

// Discovery returns the default SPIFFE identity that discovery's certificate must have: that of istio-pilot's service
// account, in the namespace in the name of discovery's host.
func Discovery(host, trustDomain string, env Environment) string {
	var namespace string
	switch labels := strings.Split(host, "."); len(labels) {
	case 1:
		namespace = cmp.Or(env["POD_NAMESPACE"], env["ISTIO_NAMESPACE"], "istio-system") // a machine's name, outside of a Pod
	case 2:
		namespace = labels[1]
	default:
		namespace = cmp.Or(env["ISTIO_NAMESPACE"], "istio-system")
	}
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/istio-pilot-service-account", trustDomain, namespace)
}
