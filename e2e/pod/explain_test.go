//go:build pod

package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// shop is what explain is asked about beside the services a and b: HTTP with rules, of b, which has a sidecar, and c, which has none; bytes of two
// servers; TLS by server name; and a service outside of the mesh. V stands for the prefix of virtual IPs, P for that of pods.
const shop = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop}
spec:
  hosts: [shop.default.svc.cluster.local]
  addresses: ["V21"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8081}, {number: 9001, name: tcp, protocol: TCP}, {number: 8443, name: tls, protocol: TLS, targetPort: 9001}]
  endpoints: [{address: "P12", labels: {app: b, version: v1}, serviceAccount: b}, {address: "P13", labels: {app: c, version: v2}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: away}
spec:
  hosts: [away.test]
  addresses: ["V22"]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8081}, {number: 9002, name: tcp, protocol: TCP, targetPort: 9001}]
  endpoints: [{address: "P13"}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inner}
spec:
  hosts: [inner.default.svc.cluster.local]
  addresses: ["V23"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8081}, {number: 9001, name: tcp, protocol: TCP}]
  endpoints: [{address: "P12", labels: {app: b}, serviceAccount: b}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: shop}
spec: {host: shop, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop}
spec:
  hosts: [shop]
  http:
  - {match: [{headers: {end-user: {exact: jason}}}], route: [{destination: {host: shop, subset: v2}}]}
  - {match: [{uri: {exact: /abort}}], fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, route: [{destination: {host: shop}}]}
  - {match: [{uri: {exact: /old}}], redirect: {uri: /new, redirectCode: 308}}
  - {match: [{uri: {prefix: /strip}}], rewrite: {uri: /}, route: [{destination: {host: shop, subset: v1}}]}
  - {match: [{uri: {prefix: /missing}}], route: [{destination: {host: shop, subset: v3}}]}
  - {match: [{uri: {exact: /limit}}], timeout: 500ms, route: [{destination: {host: shop, subset: v1}}]}
  - {match: [{uri: {exact: /again}}], timeout: 10s, retries: {attempts: 2, retryOn: 5xx}, route: [{destination: {host: shop}}]}
  - {match: [{uri: {prefix: /split}}], route: [{destination: {host: shop, subset: v1}, weight: 70}, {destination: {host: away.test}, weight: 30}]}
  - {match: [{uri: {exact: /}}, {uri: {prefix: /a}}], route: [{destination: {host: shop}}]}
  tcp: [{match: [{port: 9001}], route: [{destination: {host: shop, subset: v1}, weight: 50}, {destination: {host: shop, subset: v2}, weight: 50}]}]
  tls: [{match: [{port: 8443, sniHosts: [shop.default.svc.cluster.local]}], route: [{destination: {host: shop, subset: v2}}]}]
---
`

// explained starts the mesh with shop in it: programs that describe requests, and others that answer bytes, in each pod, and at each virtual IP, which only
// what no Envoy sends elsewhere reaches.
func explained(t *testing.T, six bool, mode, objects string, fields ...string) *mesh {
	t.Helper()
	f := (&mesh{six: six}).family()
	m := newMesh(t, six, mode, strings.NewReplacer(`"V`, `"`+f.vip, `"P`, `"`+f.prefix).Replace(shop)+objects, append(fields, truth.Logged)...)
	for _, number := range []string{"11", "12", "21", "22", "23"} {
		m.fabric.Address("lo", f.vip+number+map[bool]string{false: "/32", true: "/128"}[six])
	}
	beyond := &workload{Netns: m.fabric, mesh: m, name: "beyond"}
	for _, w := range append(slices.Collect(maps.Values(m.pods)), beyond) {
		for _, port := range []string{"80", "8081", "8083"} {
			w.describes(port)
		}
		for _, port := range []string{"8443", "9001", "9002"} {
			w.repeats(port)
		}
	}
	return m
}

// describes answers requests on a port with what they are, and delays or refuses them as they ask.
func (w *workload) describes(port string) {
	w.mesh.t.Helper()
	b := &lab.Backend{Name: w.name}
	b.Status.Store(http.StatusOK)
	l := w.listen(port)
	server := &http.Server{Handler: b}
	go server.Serve(l)
	w.mesh.t.Cleanup(func() { server.Close() })
}

// repeats answers bytes on a port, and does not speak first.
func (w *workload) repeats(port string) {
	w.mesh.t.Helper()
	l := w.listen(port)
	w.mesh.t.Cleanup(func() { l.Close() })
	go lab.AnswerEach(l, lab.SayBack)
}

// listen takes connections to a port of the workload's programs, which counts them.
func (w *workload) listen(port string) net.Listener {
	w.mesh.t.Helper()
	l, err := w.Listen(operator, "tcp", "[::]:"+port)
	check(w.mesh.t, err)
	return counting{l, &w.taken}
}

// counting is a listener that counts its connections.
type counting struct {
	net.Listener
	taken *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.taken.Add(1)
	}
	return c, err
}

// page returns a page of discovery, which it shows its own machine.
func (m *mesh) page(path string) (string, error) { return m.home.Get("http://127.0.0.1:8080" + path) }

// ask asks discovery what becomes of a request.
func (m *mesh) ask(q explain.Question) (road explain.Road, err error) {
	text, err := m.page("/debug/explain?" + q.Values().Encode())
	if err == nil {
		err = json.Unmarshal([]byte(text), &road)
	}
	return road, err
}

// dial connects as the workload's program, from a port of its own. Where the kernel lends one to two connections,
// redirection makes them alike, and gives one of them any other port, by which Envoy logs it.
func (w *workload) dial(address string) (net.Conn, error) {
	return w.DialFrom(app, 16_000+int(w.mesh.dialled.Add(1)), address, stopLimit)
}

// agrees sends exchanges of a workload's program, which the kernel leads to its Envoy, and compares what becomes of each with what explain says.
// A program connects to the address that the exchange has, else to the one that explain names, which must be where the name leads.
func (w *workload) agrees(all []*truth.Exchange, atOnce, kinds int) {
	m, t := w.mesh, w.mesh.t
	t.Helper()
	for _, e := range all {
		m.asked++
		e.Number, e.From = m.asked, "default/"+w.name
	}
	way := func(e *truth.Exchange) {
		at := e.Address
		if at == "" {
			road, err := m.ask(e.Question)
			if err != nil {
				e.Closed = err
				return
			}
			at = road.At
		}
		truth.Dialling(func() (net.Conn, error) { return w.dial(at) })(e)
	}
	got, err := truth.Compare(w.agent.Log, m.ask, way, atOnce, all)
	check(t, err)
	for _, fault := range got.Faults[:min(10, len(got.Faults))] {
		t.Error(fault)
	}
	t.Logf("%d requests, of which explain says %d things: %v", len(all), got.Things, slices.Sorted(maps.Keys(got.Kinds)))
	if len(got.Kinds) < kinds {
		t.Errorf("only %d kinds of ends were seen: %v", len(got.Kinds), got.Kinds)
	}
}

// What explain says of a program's requests is what becomes of them, where the kernel leads them to Envoy: to the names and virtual IPs of services,
// to pods themselves, and to addresses that no service has; as HTTP, as TLS and as bytes.
func TestExplainBehindRedirection(t *testing.T) {
	for _, test := range []struct {
		name, mode string
		six        bool
		fields     string
		kinds      int
	}{
		{"IPv4, REDIRECT", "REDIRECT", false, "", 10},
		{"IPv6, REDIRECT, nothing undeclared", "REDIRECT", true, "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n", 10},
		{"IPv4, TPROXY", "TPROXY", false, "", 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := explained(t, test.six, test.mode, "", test.fields)
			a, b, c := m.pods["a"], m.pods["b"], m.pods["c"]
			a.inject()
			b.inject()
			check(t, truth.Settled(m.page, a.node()))
			text, err := a.Get("http://127.0.0.1:15000/config_dump")
			check(t, err)
			var dump any
			check(t, json.Unmarshal([]byte(text), &dump))
			has := truth.Parts{Redirected: true, Outside: net.JoinHostPort(c.ip, "80")}
			has.Read(dump)
			for _, undeclared := range []string{
				net.JoinHostPort(c.ip, "8083"), net.JoinHostPort(b.ip, "8081"), net.JoinHostPort(b.ip, "8083"), net.JoinHostPort(b.ip, "9001"), net.JoinHostPort(m.family().vip+"22", "8083"),
			} {
				has.Listeners = append(has.Listeners, truth.Listener{Address: undeclared})
			}
			seed := rand.Uint64()
			t.Logf("seed %d, %d listeners", seed, len(has.Listeners))
			a.agrees(m.drawn(rand.New(rand.NewPCG(seed, 0)), has, 400), truth.AtOnce, test.kinds)
			a.agrees(m.named(), truth.AtOnce, 5)
		})
	}
}

// What explain says of a server's side is what its Envoy does with connections that the kernel leads to it: under each PeerAuthentication and some policies,
// from a sidecar with a certificate, as a call of a service and of the pod itself, at ports of HTTP and of bytes, and at one that no service has.
func TestExplainOfServersBehindRedirection(t *testing.T) {
	for _, mode := range []string{"REDIRECT", "TPROXY"} {
		t.Run(mode, func(t *testing.T) {
			m := explained(t, false, mode, "")
			a, b := m.pods["a"], m.pods["b"]
			authority, err := lab.NewAuthority("mesh")
			check(t, err)
			a.certify(authority, 1)
			b.certify(authority, 2)
			a.inject()
			b.inject()
			const peer, rule, policy = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default}\nspec: ",
				"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: inner}\nspec: ",
				"apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: b}\nspec: "
			for _, step := range []struct {
				objects []string
				want    string // status of /secret at the service, and of the pod at an undeclared port and at that of HTTP
			}{
				{[]string{peer + "{mtls: {mode: STRICT}}"}, "200 0 503"},
				{[]string{peer + "{mtls: {mode: STRICT}}", rule + "{host: inner, trafficPolicy: {tls: {mode: DISABLE}}}"}, "503 0 503"},
				{[]string{peer + "{mtls: {mode: PERMISSIVE}}", rule + "{host: inner, trafficPolicy: {tls: {mode: DISABLE}}}"}, "200 200 200"},
				{[]string{peer + "{mtls: {mode: DISABLE}}", rule + "{host: inner, trafficPolicy: {portLevelSettings: [{port: {number: 80}, tls: {mode: ISTIO_MUTUAL}}]}}"}, "503 200 200"},
				{[]string{peer + "{selector: {matchLabels: {app: b}}, mtls: {mode: STRICT}, portLevelMtls: {8083: {mode: PERMISSIVE}}}", policy + "{action: DENY, rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/a]}}], to: [{operation: {ports: ['8081']}}]}]}"}, "403 200 503"},
				{[]string{policy + "{rules: [{to: [{operation: {ports: ['9001']}}, {operation: {paths: [/]}}]}]}"}, "403 403 403"},
				{[]string{policy + "{rules: [{from: [{source: {namespaces: [default]}}]}]}"}, "200 403 403"},
				{[]string{policy + "{selector: {matchLabels: {app: b}}, action: DENY, rules: [{from: [{source: {notPrincipals: ['*']}}]}]}", peer + "{mtls: {mode: DISABLE}}"}, "403 403 403"},
				{nil, "200 200 200"},
			} {
				check(t, os.WriteFile(filepath.Join(m.dir, "config", "step.yaml"), []byte(strings.Join(step.objects, "\n---\n")), 0o644))
				check(t, lab.Eventually(stopLimit, func() error {
					for range 5 { // in a row: the change has reached both Envoys
						got := fmt.Sprint(a.status("http://inner.default.svc.cluster.local/secret", m.family().vip+"23:80"), " ", a.status("http://nobody.test/secret", net.JoinHostPort(b.ip, "8083")), " ", a.status("http://nobody.test/secret", net.JoinHostPort(b.ip, "80")))
						if got != step.want {
							return fmt.Errorf("%v: the statuses are %s, want %s", step.objects, got, step.want)
						}
					}
					return nil
				}))
				check(t, errors.Join(truth.Settled(m.page, a.node()), truth.Settled(m.page, b.node())))
				var all []*truth.Exchange
				for i := range 72 {
					to := []string{"inner", "inner:9001", net.JoinHostPort(b.ip, "8081"), net.JoinHostPort(b.ip, "9001"), net.JoinHostPort(b.ip, "8083"), net.JoinHostPort(b.ip, "80")}[i%6]
					all = append(all, &truth.Exchange{Question: explain.Question{
						To: to, Method: "GET", Path: []string{"/", "/secret"}[i/6%2], TCP: strings.HasSuffix(to, ":9001") || i%7 == 0,
					}})
				}
				a.agrees(all, 1, 2) // one after the other: a connection to a server, which the next step closes with an answer, is not kept beside others
			}
			check(t, lab.Eventually(stopLimit, func() error {
				made := b.stat(`^cluster\.(inbound\|.*|InboundPassthroughCluster)\.upstream_cx_total$`)
				if taken := b.taken.Load(); taken != made {
					return fmt.Errorf("b's programs took %d connections, of which its Envoy made %d", taken, made)
				}
				return nil
			}))
		})
	}
}

// node is the name by which discovery knows the workload's proxy.
func (w *workload) node() string {
	return "sidecar~" + w.ip + "~" + w.name + ".default~default.svc.cluster.local"
}

// status returns the status of an answer to the workload's program, which connects to an address; 0 for none.
func (w *workload) status(url, address string) int {
	client := &http.Client{Timeout: stopLimit, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return w.dial(address) },
	}}
	answer, err := lab.Exchange(client, http.MethodGet, url)
	if err != nil {
		return 0
	}
	return answer.Status
}

// drawn makes requests to listeners of Envoy that the kernel's redirection alone leads to, every other one to that of HTTP.
func (m *mesh) drawn(draw *rand.Rand, has truth.Parts, n int) (all []*truth.Exchange) {
	wide := slices.IndexFunc(has.Listeners, func(l truth.Listener) bool { return strings.HasSuffix(l.Address, ":80") })
	for i := range n {
		at := has.Listeners[wide]
		if i%2 == 0 {
			at = has.Listeners[i/2%len(has.Listeners)]
		}
		e := has.Draw(draw, at)
		host, port, err := net.SplitHostPort(at.Address)
		check(m.t, err)
		if host == "0.0.0.0" || host == "::" { // of every address of the port
			host = []string{m.vip("a"), m.vip("b"), m.family().vip + "21", m.family().vip + "22", m.pods["c"].ip}[draw.IntN(5)]
		}
		e.Address, e.TCP = net.JoinHostPort(host, port), draw.IntN(6) == 0
		e.TLS = !e.TCP && draw.IntN(3) == 0
		all = append(all, e)
	}
	return all
}

// named are requests of a program that knows a service's name, or an address, and nothing else: slow and failing servers too.
func (m *mesh) named() (all []*truth.Exchange) {
	for _, to := range []string{"shop:8443", "shop.default.svc.cluster.local:8443"} {
		all = append(all, &truth.Exchange{Question: explain.Question{To: to, Method: "GET", Path: "/", TLS: true}})
	}
	for i := range 60 {
		to := []string{"shop", "shop.default", "shop.default.svc.cluster.local", "away.test"}[i%4]
		for _, path := range []string{"/", "/limit", "/again"} {
			e := &truth.Exchange{Question: explain.Question{To: to, Method: "GET", Path: path}}
			if i%2 == 0 && path != "/" {
				e.Status = []int{http.StatusServiceUnavailable, http.StatusInternalServerError}[i/2%2]
			} else if path == "/limit" {
				e.Delay = 1500 * time.Millisecond
			}
			all = append(all, e)
		}
	}
	return all
}
