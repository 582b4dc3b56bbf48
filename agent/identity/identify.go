package identity

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

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

// Environment is the environment of a process by name.
type Environment map[string]string

// ProxyConfigVariable holds Istio's ProxyConfig of this proxy, as YAML or JSON: its injector joins MeshConfig's
// defaultConfig, the ProxyConfig objects that select the pod, and the pod's annotation in it.
const ProxyConfigVariable = "PROXY_CONFIG"

// ProxyConfig is an Istio ProxyConfig, by its keys. Discovery receives all of it.
type ProxyConfig map[string]any

// ReadProxyConfig parses the ProxyConfig of an environment; nil if there is none.
func ReadProxyConfig(env Environment) (ProxyConfig, error) {
	text := env[ProxyConfigVariable]
	if text == "" {
		return nil, nil
	}
	var c map[string]any // nested objects are decoded into this type, too
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("environment %s: want an object, such as {\"concurrency\":2}: %w", ProxyConfigVariable, err)
	}
	if n, said := c["concurrency"]; said && n != nil {
		if workers, whole := n.(int); !whole || workers < 0 {
			return nil, fmt.Errorf("environment %s: concurrency: is %v, want a whole number, 0 for all processors", ProxyConfigVariable, n)
		}
	}
	return c, nil
}

// Workers returns c's number of workers for Envoy, the number of processors if c has 0, and whether c sets it at all.
func (c ProxyConfig) Workers(processors int) (workers int, said bool) {
	n, said := c["concurrency"].(int)
	if said && n == 0 {
		n = processors
	}
	return n, said
}

// Unread returns the keys of c that have no effect, and the names in its proxyMetadata that have no effect.
func (c ProxyConfig) Unread() (keys, names []string) {
	keys = slices.DeleteFunc(slices.Sorted(maps.Keys(c)), func(key string) bool {
		return key == "concurrency" || key == "proxyMetadata" || key == "gatewayTopology" // used by the agent and discovery
	})
	_, names = c.metadata()
	return keys, names
}

// metadata returns the ISTIO_META_ names of proxyMetadata, which become node metadata like such variables of the
// environment, and the other names, which would have an effect only in a container's environment.
func (c ProxyConfig) metadata() (metadata map[string]string, others []string) {
	variables, _ := c["proxyMetadata"].(map[string]any)
	metadata = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if key, ok := strings.CutPrefix(name, MetaPrefix); ok && key != "" {
			metadata[key] = fmt.Sprint(variables[name])
		} else {
			others = append(others, name)
		}
	}
	return metadata, others
}
