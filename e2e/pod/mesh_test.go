//go:build pod

package pod

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// mesh is two pods, a and b, each with a program and a sidecar; c, which has none; and discovery; all on one fabric.
type mesh struct {
	t         *testing.T
	dir       string
	six       bool
	mode      string // interception mode
	fabric    *lab.Netns
	home      *lab.Netns // of discovery
	discovery *lab.Process
	pods      map[string]*workload
	asked     int          // requests that were compared with explain
	dialled   atomic.Int32 // connections that had a port of their own
}

// workload is a namespace with a program on port 8080, HTTP, and on 9000, bytes.
type workload struct {
	*lab.Netns
	mesh  *mesh
	name  string
	ip    string
	agent *lab.Process
	held  chan struct{} // its program holds requests of ?held back until it is closed
	taken atomic.Int64  // connections that its programs took at the ports of explained

	variables   []string // of pod-init
	environment []string // of the agent, beside what it always has
	around      []string // the program that runs the agent
}

// The addresses of the mesh in one family.
type family struct{ prefix, bits, gateway, discovery, vip string }

func (m *mesh) family() family {
	if m.six {
		return family{"fd00:77::", "/64", "fd00:77::1", "fd00:77::2", "fd00:96::"}
	}
	return family{"10.77.0.", "/24", "10.77.0.1", "10.77.0.2", "10.96.0."}
}

var last = map[string]string{"a": "11", "b": "12", "c": "13"}

func (m *mesh) vip(name string) string { return m.family().vip + last[name] }

// newMesh starts it, with a mode of interception, and objects and fields of MeshConfig beside its own.
func newMesh(t *testing.T, six bool, mode string, config string, fields ...string) *mesh {
	t.Helper()
	needs(t, "ip", "nsenter", "nft", "setpriv")
	dir, err := os.MkdirTemp("", "pilotlight-mesh-")
	check(t, err)
	check(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &mesh{t: t, dir: dir, six: six, mode: mode, fabric: lab.NewNetns(t, "fabric"), pods: map[string]*workload{}}
	m.fabric.Must("ip", "link", "add", "br0", "type", "bridge")
	m.fabric.Must("ip", "link", "set", "br0", "up")
	m.fabric.Address("br0", m.family().gateway+m.family().bits)
	d := m.join("discovery", m.family().discovery)
	m.home = d
	for name, number := range last {
		w := &workload{Netns: m.join(name, m.family().prefix+number), mesh: m, name: name, ip: m.family().prefix + number, held: make(chan struct{})}
		m.pods[name] = w
		w.program()
	}
	check(t, os.Mkdir(filepath.Join(dir, "config"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "config", "mesh.yaml"), []byte(m.services()+config), 0o644))
	at := func(port int) string { return net.JoinHostPort(m.family().discovery, fmt.Sprint(port)) }
	settings := filepath.Join(dir, "settings.yaml") // for a program that speaks first on a port that nobody declares
	check(t, os.WriteFile(settings, []byte("protocolDetectionTimeout: 1s\n"+strings.Join(fields, "")), 0o644))
	m.discovery = m.start(d, lab.Spec{Name: "discovery", Argv: []string{
		lab.Program("discovery"), "serve", "--configDir", filepath.Join(dir, "config"), "--meshConfig", settings,
		"--grpcAddr", at(15010), "--httpAddr", ":8080", "--monitoringAddr", at(15014),
	}})
	check(t, lab.Eventually(stopLimit, func() error {
		_, err := d.Get("http://" + at(8080) + "/ready")
		return err
	}))
	return m
}

// join makes a namespace at the fabric.
func (m *mesh) join(name, ip string) *lab.Netns {
	m.t.Helper()
	n := lab.NewNetns(m.t, name)
	port := name + "0"
	n.Join("eth0", m.fabric, port)
	m.fabric.Must("ip", "link", "set", port, "master", "br0")
	n.Address("eth0", ip+m.family().bits)
	n.Must("ip", "route", "add", "default", "via", m.family().gateway)
	return n
}

// start starts a process in a namespace, and ends it with the test. Its log is shown where the test fails.
func (m *mesh) start(n *lab.Netns, spec lab.Spec) *lab.Process {
	m.t.Helper()
	spec.Dir, spec.Argv = m.dir, n.Argv(spec.Argv...)
	p, err := lab.Start(spec)
	check(m.t, err)
	m.t.Cleanup(func() {
		p.Stop(stopLimit)
		if m.t.Failed() {
			m.t.Logf("%s:\n%.8000s", spec.Name, p.Log())
		}
	})
	return p
}

// services are a and b, by virtual IP, and b without one.
func (m *mesh) services() string {
	var out strings.Builder
	for _, name := range []string{"a", "b"} {
		fmt.Fprintf(&out, `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s}
spec:
  hosts: [%[1]s.default.svc.cluster.local]
  addresses: ["%s"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 9000, name: tcp, protocol: TCP}
  endpoints: [{address: "%s", labels: {app: %[1]s}, serviceAccount: %[1]s}]
---
`, name, m.vip(name), m.family().prefix+last[name])
	}
	return out.String()
}

// told is what a program was asked, as it answers.
type told struct{ Program, Host, Source, Dialled, Header string }

// program serves as an ordinary user, on every address.
func (w *workload) program() {
	t := w.mesh.t
	t.Helper()
	w.serve("8080")
	bytes, err := w.Listen(app, "tcp", "[::]:9000")
	check(t, err)
	t.Cleanup(func() { bytes.Close() })
	go func() {
		for {
			c, err := bytes.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s %s", w.name, dialled(c.(*net.TCPConn)), c.RemoteAddr())
			c.Close()
		}
	}()
}

// serve answers HTTP on a port.
func (w *workload) serve(port string) {
	w.mesh.t.Helper()
	w.serveAt("[::]:" + port)
}

// serveAt answers HTTP at an address.
func (w *workload) serveAt(address string) {
	t := w.mesh.t
	t.Helper()
	l, err := w.Listen(app, "tcp", address)
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		source, _, _ := net.SplitHostPort(r.RemoteAddr)
		if r.URL.Query().Has("held") {
			<-w.held
		}
		here := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		json.NewEncoder(out).Encode(told{w.name, r.Host, source, here, fmt.Sprint(r.Header)})
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

// inject runs pod-init, then the agent as the proxy's user, and waits until its Envoy serves.
func (w *workload) inject(flags ...string) {
	t := w.mesh.t
	t.Helper()
	output, err := podInit(w.Netns, slices.Concat(w.variables, []string{"-m", w.mesh.mode}, flags)...)
	if err != nil {
		t.Fatalf("pod-init: %v:\n%s", err, output)
	}
	w.run()
}

// run runs the agent as the proxy's user, and waits until its Envoy serves.
func (w *workload) run() {
	t := w.mesh.t
	t.Helper()
	config := filepath.Join(w.mesh.dir, w.name)
	check(t, os.Mkdir(config, 0o700))
	check(t, os.Chown(config, proxyUID, proxyUID))
	user := []string{
		"setpriv", fmt.Sprint("--reuid=", proxyUID), fmt.Sprint("--regid=", proxyUID), "--clear-groups",
		"--no-new-privs",
	}
	if w.mesh.mode == "TPROXY" { // transparent sockets
		user = append(user, "--inh-caps=-all,+net_admin", "--ambient-caps=-all,+net_admin", "--bounding-set=-all,+net_admin")
	} else {
		user = append(user, "--inh-caps=-all", "--bounding-set=-all")
	}
	w.agent = w.mesh.start(w.Netns, lab.Spec{
		Name: w.name + "-agent",
		Env: append([]string{
			"POD_NAME=" + w.name, "POD_NAMESPACE=default", "INSTANCE_IP=" + w.ip, "ISTIO_META_INTERCEPTION_MODE=" + w.mesh.mode,
			fmt.Sprintf(`ISTIO_METAJSON_LABELS={"app":%q}`, w.name),
		}, w.environment...),
		Argv: append(append(w.around, user...), lab.Program("agent"), "proxy", "sidecar", "--serviceCluster", w.name, "--concurrency", "1",
			"--configPath", config, "--binaryPath", lab.Envoy(), "--certDir", filepath.Join(w.mesh.dir, w.name+"-certs"),
			"--discoveryAddress", net.JoinHostPort(w.mesh.family().discovery, "15010")),
	})
	check(t, lab.Eventually(2*stopLimit, func() error {
		stats, err := w.Stats("127.0.0.1:15000", `^listener_manager\.(workers_started|total_listeners_active)$`)
		if err == nil && (stats["listener_manager.workers_started"] != 1 ||
			stats["listener_manager.total_listeners_active"] < 3) {
			err = fmt.Errorf("%s: %v", w.name, stats)
		}
		return err
	}))
}

// stat is the sum of the counters and gauges that match. The admin answers once Envoy's main thread has applied what it has got, which takes longer than
// one request waits if that is ten thousand names.
func (w *workload) stat(filter string) (sum int64) {
	w.mesh.t.Helper()
	check(w.mesh.t, lab.Eventually(2*stopLimit, func() error {
		stats, err := w.Stats("127.0.0.1:15000", filter)
		sum = 0
		for _, n := range stats {
			sum += n
		}
		return err
	}))
	return sum
}

// call asks a host for its page as the workload's program does: the name leads to the virtual IP.
func (w *workload) call(host string) (told, error) {
	client := w.Client(app, func(address string) string {
		name, port, _ := net.SplitHostPort(address)
		if _, err := netip.ParseAddr(name); err != nil {
			name = w.mesh.vip(name)
		}
		return net.JoinHostPort(name, port)
	})
	response, err := client.Get("http://" + host + "/")
	if err != nil {
		return told{}, err
	}
	defer response.Body.Close()
	var answer told
	if response.StatusCode != http.StatusOK {
		return told{}, fmt.Errorf("%s: %s", host, response.Status)
	}
	return answer, json.NewDecoder(response.Body).Decode(&answer)
}
