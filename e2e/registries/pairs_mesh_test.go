//go:build registries

package registries

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// mesh is a Consul, an API server with its etcd, files of configuration, a DNS server, a discovery that remembers what they had, and a
// sidecar that remembers what discovery served, over mutual TLS. What each of both writes lies on a small disk.
type mesh struct {
	*world
	registry *consul
	cluster  *apiServer
	port     int // of the backends

	names *resolver

	ofRegistry, ofCluster, ofFiles, ofNames, refused string // URLs

	own, stranger  *lab.Authority
	certs          string // of the agent
	state, proxies string // directories that discovery and the agent write
	agent          *lab.Sidecar
	workload       lab.Workload
	revision       int    // of the file
	override       string // of the bootstrap: a change has the agent hand over
	interval       int    // in it, in seconds
	times          int    // of hand-overs and pushes
}

// ofPods is the address of the API server's endpoints.
const ofPods = "10.1.0.11"

const root, tenant = "spiffe://cluster.local/ns/istio-system/sa/discovery", "spiffe://cluster.local/ns/default/sa/client"

func newMesh(t *testing.T) *mesh {
	t.Helper()
	w := newWorld(t)
	m := &mesh{world: w, port: w.port(), certs: filepath.Join(w.Dir, "certs"), state: filepath.Join(w.Dir, "state"), proxies: lab.ShortDir(t)}
	var err error
	m.own, err = lab.NewAuthority("mesh")
	w.check(err)
	m.stranger, err = lab.NewAuthority("stranger")
	w.check(err)
	for _, dir := range []string{m.certs, m.state} {
		w.check(os.Mkdir(dir, 0o700))
	}
	lab.MountTmpfs(t, m.state, "size=4m,mode=0700", 0)
	lab.MountTmpfs(t, m.proxies, "size=4m,mode=0700", 0)
	m.certificate(m.own)

	m.registry, m.cluster = w.consulServer(), w.apiServer()
	w.backend("one", 11, m.port)
	w.backendAt("one", ofPods, m.port)
	w.backend("refused", 12, m.port)
	m.register(0)
	m.apply(0)
	w.configDir = filepath.Join(w.Dir, "config")
	w.check(os.Mkdir(w.configDir, 0o755))
	w.check(os.WriteFile(filepath.Join(w.configDir, "closed.yaml"), []byte(closed), 0o644))
	w.check(os.WriteFile(filepath.Join(w.configDir, "names.yaml"), fmt.Appendf(nil, named, m.port), 0o644))
	m.names = w.resolver(w.Addresses + "11")
	m.write(0, "")
	m.ofRegistry = fmt.Sprintf("http://web.service.consul:%d/", m.port)
	m.ofCluster = fmt.Sprintf("http://kube.default.svc.cluster.local:%d/", m.port)
	m.ofFiles = fmt.Sprintf("http://files.example.com:%d/", m.port)
	m.ofNames = fmt.Sprintf("http://names.example.com:%d/", m.port)
	m.refused = fmt.Sprintf("http://%s12:%d/", w.Addresses, m.port)

	dir := filepath.Join(w.Dir, "keys")
	w.check(os.Mkdir(dir, 0o700))
	i, err := m.own.Issue(root, 1)
	w.check(err)
	w.check(i.Write(dir, "discovery"))
	secure := local(w.port())
	kubeconfig, err := m.cluster.Kubeconfig("admin", "test")
	w.check(err)
	w.serve("--registries", "Consul,Kubernetes", "--consulserverURL", m.registry.url, "--kubeconfig", kubeconfig, "--stateDir", m.state, "--wipeDelay", "10m",
		"--secureGRPCAddr", secure, "--tlsCertFile", dir+"/discovery.pem", "--tlsKeyFile", dir+"/discovery.key", "--caCertFile", dir+"/ca.pem")
	port := w.port()
	w.proxy = local(port)
	m.override = filepath.Join(w.Dir, "override.json")
	lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1") // without a socket of its parent a newcomer takes over side by side
	m.handOver()
	m.workload = lab.Workload{
		Name: "client", App: "client", Version: "v1", IP: w.Addresses + "1", ProxyPort: port, AdminPort: w.port(), Discovery: secure,
		Flags: []string{
			"--id", "client.default", "--controlPlaneAuthPolicy", "MUTUAL_TLS", "--certDir", m.certs, "--pilotIdentity", root,
			"--configPath", filepath.Join(m.proxies, "client"), "--lastGood", "on", "--bootstrapOverride", m.override,
		},
	}
	m.startAgent()
	w.T.Cleanup(func() {
		m.agent.Stop(lab.StopLimit)
		if w.T.Failed() {
			w.T.Logf("agent:\n%s", m.agent.Log())
		}
	})
	m.whole("at first")
	w.check(lab.Eventually(time.Minute, m.remembered)) // nobody remembers what has just come for the first time
	return m
}

// remembered returns an error until discovery and the agent have written what they have.
func (m *mesh) remembered() error {
	for _, name := range []string{
		filepath.Join(m.proxies, "client", lab.LastGood),
		filepath.Join(m.state, "Consul-*.state"), filepath.Join(m.state, "Kubernetes-*.state"), filepath.Join(m.state, "config-*.state"),
	} {
		if found, err := filepath.Glob(name); err != nil || len(found) != 1 {
			return fmt.Errorf("%s: there are %q (%v)", name, found, err)
		}
	}
	return nil
}

// closed refuses what the mesh does not have.
const closed = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: istio-system}
spec:
  egress: [{hosts: ["*/*"]}]
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
`

// named has an endpoint that is a name.
const named = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: names, namespace: default}
spec:
  hosts: [names.example.com]
  ports: [{number: %d, name: http, protocol: HTTP}]
  resolution: DNS
  endpoints: [{address: backend.pairs.test}]
`

// write puts a revision into the file, with a text after it.
func (m *mesh) write(revision int, further string) {
	m.T.Helper()
	text := fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: files, namespace: default}
spec:
  hosts: [files.example.com, r%d.example.com]
  ports: [{number: %d, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: %s11}]
`, revision, m.port, m.Addresses)
	path := filepath.Join(m.configDir, "files.yaml")
	m.check(os.WriteFile(path+"~", []byte(text+further), 0o644))
	m.check(os.Rename(path+"~", path))
}

// register gives Consul its services, and one with a revision in its name.
func (m *mesh) register(revision int) {
	m.T.Helper()
	for _, name := range []string{"web", "shop", "cart", "mail", fmt.Sprint("r", revision)} {
		m.check(lab.Eventually(time.Minute, func() error {
			return m.registry.external(name, name, m.Addresses+"11", m.port, "passing", 1)
		}))
	}
}

// apply gives the API server its service, and one with a revision in its name in the place of the last one.
func (m *mesh) apply(revision int) {
	m.T.Helper()
	m.check(lab.Eventually(time.Minute, func() error {
		if err := m.cluster.service("kube", ofPods, m.port); err != nil {
			return err
		}
		if err := m.cluster.service(fmt.Sprint("k", revision), ofPods, m.port); err != nil || revision == 0 {
			return err
		}
		err := m.cluster.Ask(http.MethodDelete, fmt.Sprint(services, "k", revision-1), "")
		if err != nil && strings.Contains(err.Error(), "404 Not Found") {
			return nil // an attempt whose answer came too late has deleted it
		}
		return err
	}))
}

// whole waits until all parts are well and a change in Consul, one of the API server and one in the file are in Envoy.
func (m *mesh) whole(what string) {
	m.T.Helper()
	m.revision++
	m.write(m.revision, "")
	m.register(m.revision)
	m.apply(m.revision)
	m.check(lab.Eventually(time.Minute, func() error {
		for _, at := range []string{m.discovery.HTTP, m.agent.Admin} {
			if _, err := lab.Get("http://" + at + "/ready"); err != nil {
				return fmt.Errorf("%s, mended: %w", what, err)
			}
		}
		if config, err := lab.Get("http://" + m.agent.Admin + "/config_dump?mask=bootstrap.stats_flush_interval"); err != nil || !strings.Contains(config, m.flush()) {
			return fmt.Errorf("%s, mended: the bootstrap is not the last one: %s, %w", what, config, err)
		}
		r := m.revision
		for _, host := range []string{
			"web.service.consul", "kube.default.svc.cluster.local", "files.example.com", "names.example.com",
			fmt.Sprintf("r%d.service.consul", r), fmt.Sprintf("k%d.default.svc.cluster.local", r), fmt.Sprintf("r%d.example.com", r),
		} {
			if _, err := lab.GetThrough(m.proxy, fmt.Sprintf("http://%s:%d/", host, m.port)); err != nil {
				return fmt.Errorf("%s, mended: %s: %w", what, host, err)
			}
		}
		return nil
	}))
}

func (m *mesh) kill() {
	m.T.Helper()
	m.discovery.Signal(syscall.SIGKILL)
	_, err := m.discovery.Wait(stopLimit)
	m.check(err)
}

func (m *mesh) freeze() { m.discovery.Signal(syscall.SIGSTOP) }

// start starts discovery without waiting for its readiness.
func (m *mesh) start() {
	m.T.Helper()
	m.check(m.discovery.Start())
}

// discoveryBack makes discovery run, and does not wait for its readiness, which may need the other fault's end.
func (m *mesh) discoveryBack() {
	m.T.Helper()
	m.discovery.Signal(syscall.SIGCONT)
	select {
	case <-m.discovery.Done():
		m.start()
	default:
	}
}

// registryBack makes Consul run, with its services.
func (m *mesh) registryBack() {
	m.T.Helper()
	select {
	case <-m.registry.Done():
		m.registry.restart()
	default:
	}
	m.register(m.revision)
}

// clusterBack makes the API server run, and waits until it is ready.
func (m *mesh) clusterBack() {
	m.T.Helper()
	m.cluster.Signal(syscall.SIGCONT)
	select {
	case <-m.cluster.Done():
		m.cluster.restart()
	default:
		m.check(lab.Eventually(2*time.Minute, m.cluster.Ready))
	}
}

func (m *mesh) forget() {
	m.T.Helper()
	m.check(os.RemoveAll(filepath.Join(m.Dir, "server")))
}

func (m *mesh) killEnvoy() {
	m.T.Helper()
	m.check(lab.Eventually(30*time.Second, func() error {
		pid, err := m.agent.Envoy()
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}))
}

func (m *mesh) startAgent() {
	m.T.Helper()
	agent, err := m.Sidecar(m.workload)
	m.check(err)
	m.agent = agent
	m.admin = agent.Admin
}

// restartAgent kills the agent, as a kubelet or a machine may, and starts it when its Envoy is gone.
func (m *mesh) restartAgent() {
	m.T.Helper()
	m.agent.Signal(syscall.SIGKILL)
	_, err := m.agent.Wait(stopLimit)
	m.check(err)
	m.check(lab.Eventually(30*time.Second, func() error {
		if c, err := net.Dial("tcp", m.proxy); err == nil {
			c.Close()
			return errors.New("Envoy outlives its agent")
		}
		return nil
	}))
	m.startAgent()
}

// certificate gives the agent a certificate of an authority.
func (m *mesh) certificate(from *lab.Authority) {
	m.T.Helper()
	i, err := from.Issue(tenant, time.Now().UnixNano())
	m.check(err)
	m.check(i.Mount(m.certs))
}

// handOver gives the agent a bootstrap for which a newcomer takes over from its Envoy.
func (m *mesh) handOver() {
	m.T.Helper()
	m.times++
	m.interval = 10 + m.times
	m.check(os.WriteFile(m.override+"~", fmt.Appendf(nil, `{"stats_flush_interval": %q}`, m.flush()), 0o644))
	m.check(os.Rename(m.override+"~", m.override))
}

// flush is the interval that the bootstrap has since the last hand-over.
func (m *mesh) flush() string { return fmt.Sprintf("%ds", m.interval) }

// push has discovery send Envoy a listener that it has not had, in the place of the last one.
func (m *mesh) push() {
	m.T.Helper()
	m.times++
	path := filepath.Join(m.configDir, "pushed.yaml")
	m.check(os.WriteFile(path+"~", fmt.Appendf(nil, pushed, m.Addresses+"13", 30000+m.times, m.Addresses+"11"), 0o644))
	m.check(os.Rename(path+"~", path))
}

// pushed is a service at an address at which the sidecar itself listens.
const pushed = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pushed, namespace: default}
spec:
  hosts: [pushed.example.com]
  addresses: [%s]
  ports: [{number: %d, name: tcp, protocol: TCP}]
  resolution: STATIC
  endpoints: [{address: %s}]
`

// removeSockets removes the sockets of the agent and its Envoys, as a cleaner of /run may.
func (m *mesh) removeSockets() {
	m.T.Helper()
	m.check(lab.RemoveSockets(filepath.Join(m.proxies, "client")))
}

// fill leaves no byte on the disks of discovery and of the agent.
func (m *mesh) fill() {
	m.T.Helper()
	for _, dir := range []string{m.state, m.proxies} {
		err := os.WriteFile(filepath.Join(dir, "ballast"), []byte(strings.Repeat("x", 8<<20)), 0o600)
		if !errors.Is(err, syscall.ENOSPC) {
			m.T.Fatalf("fill %s: %v", dir, err)
		}
	}
}

func (m *mesh) empty() {
	m.T.Helper()
	for _, dir := range []string{m.state, m.proxies} {
		m.check(os.Remove(filepath.Join(dir, "ballast")))
	}
}
