package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// options are the demo's flags.
type options struct {
	bin       string // the folder of the binaries: agent, discovery, bookinfo, envoy
	config    string // the folder of Istio YAML
	run       string // the folder of logs and of what the agents write
	addresses string // the first three bytes of the services' addresses, "127.0.0."
	offset    int    // added to every control port
	registry  string // consul, or "" for the configuration
	mtls      bool   // certificates, STRICT and a policy
}

// spec is one process to run.
type spec struct {
	name  string
	argv  []string
	env   []string // beside PATH, nothing else is inherited
	ready string   // answers 200 once the process serves
}

// plan is everything to run, one phase after another: each must be ready before the next one starts.
type plan struct {
	config   string // what discovery reads, and a person edits
	page     string // the product page's origin
	consulAt string // Consul's configuration file, "" for none
	services []byte // its content
	further  string // folder of configuration that is copied beside it, "" for none
	ca       string // the authority's folder, "" for none
	tokens   []token
	phases   [][]spec
	sidecars []sidecar
}

// sidecar is where an agent writes, and where it answers for its Envoy's admin.
type sidecar struct{ Name, ConfigPath, Admin string }

// workload is one program of the mesh. Its place in the list gives it its address and ports.
type workload struct{ app, version string }

var workloads = [...]workload{
	{"productpage", "v1"},
	{"details", "v1"},
	{"reviews", "v1"},
	{"reviews", "v2"},
	{"ratings", "v1"},
}

// defaultAddresses is the prefix that the example's configuration is written for.
const defaultAddresses = "127.0.0."

// ports of one demo; those of the workloads count up from theirs.
const (
	grpcPort      = 15010
	securePort    = 15012
	httpPort      = 8080
	metricsPort   = 15014
	outboundPort  = 15101 // each sidecar's HTTP proxy
	adminPort     = 15201
	servicePort   = 9080  // Envoy's, at the workload's address
	programPort   = 19080 // the program's, behind it
	firstWorkload = 11    // the last byte of the first workload's address
)

// newPlan says what to run. It touches nothing.
func newPlan(o options) plan {
	p := plan{
		config: o.config,
		page:   fmt.Sprintf("http://%s:%d", o.ip(0), servicePort),
	}
	if o.mtls || o.addresses != defaultAddresses || o.registry == consul {
		p.config = filepath.Join(o.run, "config") // a copy with the other addresses and hosts
	}
	var programs, agents []spec
	for i, w := range workloads {
		programs = append(programs, o.program(i, w))
		agents = append(agents, o.agent(i, w))
		p.sidecars = append(p.sidecars, sidecar{w.name(), o.configPath(w), local(adminPort+i+o.offset, "")})
	}
	if o.mtls {
		gateway := o.gateway()
		agents = append(agents, gateway)
		p.sidecars = append(p.sidecars, sidecar{ingress, filepath.Join(o.run, ingress), local(adminPort+len(workloads)+o.offset, "")})
		p.page = fmt.Sprintf("http://%s:%d", o.ip(len(workloads)), servicePort) // the sidecars take mutual TLS alone
		p.further, p.ca, p.tokens = filepath.Join(o.config, "..", "mtls"), o.caDir(), o.joinTokens()
	}
	p.phases = [][]spec{{o.discovery(p.config)}, programs, agents}
	if o.registry == consul {
		p.consulAt, p.services = filepath.Join(o.run, "consul.json"), o.consulConfig()
		p.phases = append([][]spec{{o.consulServer(p.consulAt)}}, p.phases...)
	}
	return p
}

func (o options) discovery(config string) spec {
	s := spec{
		name: "discovery",
		argv: []string{
			filepath.Join(o.bin, "discovery"), "serve",
			"--configDir", config, "--loopbackEndpoints",
			"--grpcAddr", loopback(grpcPort + o.offset),
			"--httpAddr", loopback(httpPort + o.offset), "--monitoringAddr", loopback(metricsPort + o.offset),
		},
		ready: local(httpPort+o.offset, "/ready"),
	}
	if o.mtls {
		s.argv = append(s.argv, "--ca", "--caDir", o.caDir(), "--secureGRPCAddr", loopback(securePort+o.offset))
	}
	if o.registry == consul {
		s.argv = append(s.argv, "--registries", "Consul", "--consulserverURL", local(consulPort+o.offset, ""))
	}
	return s
}

// program is an ordinary process: all it knows of the mesh is http_proxy.
func (o options) program(i int, w workload) spec {
	address := o.programAddress(i)
	s := spec{
		name:  w.name(),
		argv:  []string{filepath.Join(o.bin, "bookinfo"), "-service", w.app, "-version", w.version, "-listen", address},
		env:   []string{"http_proxy=" + local(outboundPort+i+o.offset, "")},
		ready: "http://" + address + "/health",
	}
	if o.registry == consul {
		s.argv = append(s.argv, "-domain", consulDomain)
	}
	return s
}

func (o options) programAddress(i int) string { return fmt.Sprintf("%s:%d", o.ip(i), programPort) }

func (o options) agent(i int, w workload) spec {
	s := o.proxy(i, "sidecar", w.name(), w.app, fmt.Sprintf(`{"app":%q,"version":%q}`, w.app, w.version))
	s.env = slices.Insert(s.env, 1, fmt.Sprintf("ISTIO_META_HTTP_PROXY_PORT=%d", outboundPort+i+o.offset))
	return s
}

// proxy is an agent at the i-th address. Its account has the name of its service.
func (o options) proxy(i int, role, name, service, labels string) spec {
	discovery := grpcPort
	if o.mtls {
		discovery = securePort
	}
	s := spec{
		name: name + "-agent",
		argv: []string{
			filepath.Join(o.bin, "agent"), "proxy", role,
			"--ip", o.ip(i),
			"--id", name + ".default",
			"--domain", "default.svc.cluster.local",
			"--serviceCluster", service,
			"--serviceregistry", "Other",
			"--configPath", filepath.Join(o.run, name),
			"--binaryPath", filepath.Join(o.bin, "envoy"),
			"--discoveryAddress", loopback(discovery + o.offset),
			"--proxyAdminPort", strconv.Itoa(adminPort + i + o.offset),
			"--concurrency", "1",
		},
		env: []string{
			"ISTIO_META_INTERCEPTION_MODE=NONE",
			"ISTIO_META_NAMESPACE=default",
			"ISTIO_METAJSON_LABELS=" + labels,
		},
		ready: local(adminPort+i+o.offset, "/ready"),
	}
	if o.mtls {
		s.argv = append(s.argv, "--caAddress", loopback(securePort+o.offset), "--caRoots", filepath.Join(o.caDir(), "root-cert.pem"),
			"--caToken", o.tokenFile(service))
	}
	return s
}

func (o options) ip(i int) string { return o.addresses + strconv.Itoa(firstWorkload+i) }

func (o options) configPath(w workload) string { return filepath.Join(o.run, w.name()) }

func (w workload) name() string { return w.app + "-" + w.version }

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func local(port int, path string) string { return "http://" + loopback(port) + path }

// consul is the registry of that name, and the folder of its program in that of the binaries.
const (
	consul       = "consul"
	consulDomain = "service.consul"
	consulPort   = 8500 // of its API
	raftPort     = 8300
	serfPort     = 8301
)

// consulServer is Consul's server in memory, which registers the services that its configuration has. Its leader is ready when lists are.
func (o options) consulServer(config string) spec {
	return spec{
		name: consul, argv: []string{o.consulProgram(), "agent", "-dev", "-config-file=" + config}, ready: local(consulPort+o.offset, "/v1/catalog/services"),
	}
}

func (o options) consulProgram() string { return filepath.Join(o.bin, "registries", consul) }

// consulThere returns an error that says what to run where there is no Consul.
func (o options) consulThere() error {
	_, err := os.Stat(o.consulProgram())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: envoy-tools/fetch-registries consul builds it, which takes minutes", err)
	}
	return err
}

// consulService is a service as Consul's configuration writes it.
type consulService struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Address string            `json:"address"`
	Port    int               `json:"port"`
	Meta    map[string]string `json:"meta"`
	Check   consulCheck       `json:"check"`
}

type consulCheck struct {
	HTTP     string `json:"http"`
	Interval string `json:"interval"`
}

// consulConfig returns Consul's configuration. Each workload is an instance at its sidecar's address, and is as well as its program.
func (o options) consulConfig() []byte {
	var services []consulService
	for i, w := range workloads {
		services = append(services, consulService{
			ID: w.name(), Name: w.app, Address: o.ip(i), Port: servicePort, Meta: map[string]string{"version": w.version, "protocol": "http"},
			Check: consulCheck{HTTP: "http://" + o.programAddress(i) + "/health", Interval: "1s"},
		})
	}
	text, err := json.MarshalIndent(map[string]any{
		"node_name": "demo", "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "disable_update_check": true, "log_level": "warn",
		"connect": map[string]bool{"enabled": false}, "services": services,
		"ports": map[string]int{
			"http": consulPort + o.offset, "server": raftPort + o.offset, "serf_lan": serfPort + o.offset,
			"serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	}, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return append(text, '\n')
}
