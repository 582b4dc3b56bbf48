package hostile

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/hostile"})
}

// shared is a gateway of the namespace istio-ingress that every namespace may use, behind a real agent.
type shared struct {
	*lab.World
	agent *lab.Sidecar
	port  int
}

// start starts discovery, and the gateway with a route of its own: own.test is answered 299.
func start(t *testing.T, flags ...string) *shared {
	t.Helper()
	return startWith(t, func(*lab.Workload, *lab.World) {}, flags...)
}

// startWith is start with a change of the gateway's agent.
func startWith(t *testing.T, change func(*lab.Workload, *lab.World), flags ...string) *shared {
	t.Helper()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{World: lab.NewWorld(t, crd.Sound, flags...), port: port}
	s.write("own", "istio-ingress", fmt.Sprintf(`
Gateway gw
  selector: {app: gw}
  servers: [{port: {number: %d, name: http, protocol: HTTP}, hosts: ["*"]}]
VirtualService own
  hosts: [own.test]
  gateways: [istio-ingress/gw]
  http: [{directResponse: {status: 299}}]`, port))
	w := lab.Workload{
		Role: "router", Name: "gw", App: "gw", Version: "v1", IP: s.Address(), Discovery: s.Discovery.GRPC,
		Flags: []string{"--id", "gw.istio-ingress", "--domain", "istio-ingress.svc.cluster.local"},
		Env:   []string{"POD_NAMESPACE=istio-ingress", "ISTIO_META_NAMESPACE=istio-ingress"},
	}
	change(&w, s.World)
	s.agent, err = s.Sidecar(w)
	s.Check(err)
	t.Cleanup(func() { s.agent.Stop(lab.StopLimit) })
	s.Check(s.agent.AwaitReady())
	s.Await(s.client(), "http://own.test/", lab.Status(299))
	return s
}

// client returns a client of the gateway.
func (s *shared) client() *http.Client { return lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", s.port), nil) }

// write writes objects of a namespace, each as a line KIND NAME and its spec, into one file.
func (s *shared) write(file, namespace, objects string) {
	s.T.Helper()
	var text strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(objects), "\n") {
		if kind, name, ok := strings.Cut(line, " "); ok && kind != "" {
			group := "networking"
			if strings.HasSuffix(kind, "Authentication") {
				group = "security"
			}
			fmt.Fprintf(&text, "---\napiVersion: %s.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec:\n", group, kind, name, namespace)
			continue
		}
		text.WriteString(line + "\n")
	}
	path := filepath.Join(s.Config, file+".yaml")
	s.Check(os.WriteFile(path+"~", []byte(text.String()), 0o644))
	s.Check(os.Rename(path+"~", path))
}

// door is one way into the gateway.
type door struct {
	name, resolution, address string
	port                      int
}

// open has a tenant write a ServiceEntry and a VirtualService for each door: the host of door i is door-I.test.
func (s *shared) open(doors []door) {
	s.T.Helper()
	var text strings.Builder
	for i, d := range doors {
		host := fmt.Sprintf("door-%d", i)
		fmt.Fprintf(&text, `
ServiceEntry %[1]s
  hosts: [%[1]s.test]
  resolution: %[2]s
  ports: [{number: %[4]d, name: http, protocol: HTTP}]
  endpoints: [{address: "%[3]s", labels: {version: v1}}]
DestinationRule %[1]s
  host: %[1]s.test
  subsets: [{name: v1, labels: {version: v1}}]
VirtualService %[1]s
  hosts: [%[1]s.test]
  gateways: [istio-ingress/gw]
  http:
  - match: [{uri: {prefix: /subset}}]
    route: [{destination: {host: %[1]s.test, subset: v1}}]
  - route: [{destination: {host: %[1]s.test}}]`, host, d.resolution, d.address, d.port)
	}
	s.write("evil", "evil", text.String()+`
WorkloadEntry admin
  address: 127.0.0.1
  labels: {app: admin}
ServiceEntry workload
  hosts: [workload.test]
  resolution: STATIC
  ports: [{number: `+fmt.Sprint(s.adminPort())+`, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: admin}}
VirtualService workload
  hosts: [workload.test]
  gateways: [istio-ingress/gw]
  http: [{route: [{destination: {host: workload.test}}]}]`)
}

func (s *shared) adminPort() int {
	s.T.Helper()
	var port int
	_, err := fmt.Sscan(s.agent.Admin[strings.LastIndexByte(s.agent.Admin, ':')+1:], &port)
	s.Check(err)
	return port
}

// sockets returns the Unix sockets of the agent and of its Envoy.
func (s *shared) sockets() (out []string) {
	s.T.Helper()
	s.Check(filepath.WalkDir(s.agent.ConfigPath, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type()&os.ModeSocket != 0 {
			out = append(out, path)
		}
		return err
	}))
	if len(out) < 3 {
		s.T.Fatalf("the agent has the sockets %s, want sds, agent and admin", out)
	}
	return out
}

// closed checks that no door leads anywhere: the gateway knows the host, and has no endpoint for it. Each is named.
func (s *shared) closed(doors []door) {
	s.T.Helper()
	client := s.client()
	hosts := []string{"workload"}
	for i := range doors {
		hosts = append(hosts, fmt.Sprintf("door-%d", i))
	}
	for i, host := range hosts {
		name := "a WorkloadEntry"
		if i > 0 {
			name = doors[i-1].name
		}
		for _, path := range []string{"/config_dump", "/subset"} {
			if i == 0 && path == "/subset" {
				continue
			}
			if a := s.Await(client, "http://"+host+".test"+path, lab.Status(503)); strings.Contains(a.Body, "connection") {
				s.T.Errorf("%s: the gateway tries to connect: %s", name, a.Body)
			}
		}
	}
	clusters, err := lab.Get("http://" + s.agent.Admin + "/clusters")
	s.Check(err)
	for line := range strings.SplitSeq(clusters, "\n") {
		if strings.Contains(line, ".test::") && strings.Contains(line, "::hostname::") {
			s.T.Errorf("Envoy has an endpoint of a tenant: %s", line)
		}
	}
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		notes, err := lab.Get("http://" + s.Discovery.HTTP + "/debug/notes")
		if err != nil {
			return err
		}
		for i, d := range doors {
			if !strings.Contains(notes, fmt.Sprintf("door-%d", i)) {
				return fmt.Errorf("no note names %s, door-%d:\n%s", d.name, i, notes)
			}
		}
		return nil
	}))
}

// No endpoint of a tenant leads into the gateway: neither to sockets of its agent and its Envoy, nor to its ports.
func TestDoorsOfSharedGateway(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"by default": {"--loopbackEndpoints=false"}, "on one machine": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, flags...)
			admin := s.adminPort()
			doors := []door{
				{"Envoy's admin", "STATIC", "127.0.0.1", admin},
				{"in IPv6", "STATIC", "::1", admin},
				{"mapped", "STATIC", "::ffff:127.0.0.1", admin},
				{"the unspecified address", "STATIC", "0.0.0.0", admin},
				{"the unspecified address of IPv6", "STATIC", "::", admin},
				{"a name", "DNS", "localhost", admin},
				{"a name below it", "DNS", "a.localhost", admin},
				{"resolved once", "DNS_ROUND_ROBIN", "localhost", admin},
				{"the default port of the admin", "STATIC", "127.0.0.1", 15000},
				{"of the status", "STATIC", "127.0.0.1", 15020},
				{"of probes", "STATIC", "127.0.0.1", 15021},
				{"another loopback address", "STATIC", "127.0.0.2", 15020},
				{"the metadata of a cloud", "STATIC", "169.254.169.254", 80},
			}
			short, err := os.MkdirTemp("", "hostile-") // a socket's address has 107 bytes
			s.Check(err)
			t.Cleanup(func() { os.RemoveAll(short) })
			s.Check(os.Symlink(s.agent.ConfigPath, filepath.Join(short, "c")))
			for _, path := range s.sockets() {
				path = filepath.Join(short, "c") + strings.TrimPrefix(path, s.agent.ConfigPath)
				doors = append(doors, door{filepath.Base(path), "STATIC", "unix://" + path, 80})
			}
			s.open(doors)
			s.closed(doors)
			s.Await(s.client(), "http://own.test/", lab.Status(299)) // nothing has ended it
		})
	}
}

// The way of these attacks works where the mesh is on one machine: an endpoint at another loopback address is reached.
func TestNeighborsOnOneMachine(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := s.Backend("app")
	s.open([]door{{"a service", "STATIC", b.IP, b.Port}})
	s.Await(s.client(), "http://door-0.test/", lab.From("app"))
}

// A tenant's Gateway opens nothing at the shared gateway that its owner has: no file is removed for a socket, and
// requests to one address get the owner's answer. The tenant sorts before the owner.
func TestTenantBindsNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	precious := filepath.Join(s.Dir, "precious")
	s.Check(os.WriteFile(precious, []byte("kept"), 0o600))
	agentSocket := s.sockets()[0]
	s.write("evil", "evil", fmt.Sprintf(`
Gateway file
  selector: {app: gw}
  servers: [{port: {number: 1, name: http, protocol: HTTP}, bind: "unix://%s", hosts: ["*"]}]
Gateway address
  selector: {app: gw}
  servers: [{port: {number: %d, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: ["*"]}]
VirtualService address
  hosts: ["*"]
  gateways: [evil/address]
  http: [{directResponse: {status: 218}}]
VirtualService arrived
  hosts: [arrived.test]
  gateways: [istio-ingress/gw]
  http: [{directResponse: {status: 298}}]
VirtualService variables
  hosts: [variables.test]
  gateways: [istio-ingress/gw]
  http: [{headers: {response: {set: {x-stolen: "%%ENVIRONMENT(PATH)%%"}}}, directResponse: {status: 200}}]
Gateway agent
  selector: {app: gw}
  servers: [{port: {number: 1, name: http, protocol: HTTP}, bind: "unix://%s", hosts: ["*"]}]`, precious, s.port, agentSocket))
	s.Await(s.client(), "http://arrived.test/", lab.Status(298))
	s.Await(s.client(), "http://own.test/", lab.Status(299))
	if a := s.Await(s.client(), "http://variables.test/", lab.Status(404)); a.Header.Get("X-Stolen") != "" {
		t.Errorf("a client reads a variable of the gateway: %s", a.Header.Get("X-Stolen"))
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "kept" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if !slices.Contains(s.sockets(), agentSocket) {
		t.Errorf("the agent's socket %s is gone", agentSocket)
	}
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		log := s.Discovery.Log()
		for _, part := range []string{"Gateway evil/file", "Gateway evil/address", "Gateway evil/agent", "shows the proxy itself"} {
			if !strings.Contains(log, part) {
				return fmt.Errorf("the log does not have %q:\n%s", part, log)
			}
		}
		return nil
	}))
}
