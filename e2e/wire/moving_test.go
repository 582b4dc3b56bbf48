//go:build wire

package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// mover is a workload, a client and a server with a sidecar, that moves from istiod to our discovery.
type mover struct {
	w          *world
	authority  *lab.Authority
	name, ip   string
	port       int // of its sidecar, for its clients
	program    int // behind it
	further    []*further
	other      *mover // whose further ports it asks
	moves      int
	proxy      string // of its sidecar's outbound HTTP
	stop       func()
	controlled string // by which control plane
}

func (w *world) mover(authority *lab.Authority, name string, last int) *mover {
	program := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(out, "%s is asked by <%s>", name, r.Header.Get("x-forwarded-client-cert"))
	}))
	w.T.Cleanup(program.Close)
	return &mover{
		w: w, authority: authority, name: name, ip: fmt.Sprintf("%s%d", w.Addresses, last),
		port: lab.Port(w.T), program: portOf(program.Listener.Addr().String()), stop: func() {}, further: w.furtherPorts(name),
	}
}

// config is what both control planes read of it.
func (m *mover) config() string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: default}
spec:
  hosts: [%[1]s.test]
  ports: [{number: 80, name: http, protocol: HTTP}%[5]s]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: %[2]s, ports: {http: %[3]d%[6]s}, serviceAccount: %[1]s, labels: {app: %[1]s}}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %[1]s, namespace: default}
spec:
  workloadSelector: {labels: {app: %[1]s}}
  ingress: [{port: {number: %[3]d, name: http, protocol: HTTP}, bind: %[2]s, defaultEndpoint: "127.0.0.1:%[4]d"}%[7]s]
  egress: [%[8]s{hosts: ["*/*"]}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: default}
spec: {host: %[1]s.test, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}} # a connection of before stays as it is
`, m.name, m.ip, m.port, m.program, m.all(m, ", {number: %[1]d, name: %[2]s, protocol: %[3]s}"), m.all(m, ", %[2]s: %[4]d"),
		m.all(m, `, {port: {number: %[4]d, name: %[2]s, protocol: %[3]s}, bind: %[6]s, defaultEndpoint: "127.0.0.1:%[5]d"}`),
		m.all(m.other, `{port: {number: %[1]d, name: %[2]s, protocol: %[3]s}, bind: %[6]s, captureMode: NONE, hosts: ["*/*"]}, `))
}

func (m *mover) identity() lab.Identity {
	m.w.T.Helper()
	m.moves++
	i, err := m.authority.Issue(m.account(), int64(1000+m.moves))
	m.w.check(err)
	return i
}

func (m *mover) account() string { return "spiffe://cluster.local/ns/default/sa/" + m.name }

// toIstiod starts it with Istio's agent, which istiod tells what to do.
func (m *mover) toIstiod(i *istiod) {
	m.w.T.Helper()
	a := m.w.pilotAgentOf(m.name, m.ip, i.grpc, "NONE", m.identity(), fmt.Sprintf(`ISTIO_METAJSON_LABELS={"app":%q}`, m.name))
	m.w.check(a.AwaitHTTP(30*time.Second, "http://"+a.status+"/healthz/ready"))
	m.proxy, m.controlled, m.stop = a.http, "istiod", func() { a.Stop(stopLimit) }
}

// toOurs stops it, and starts it with our agent, which our discovery tells what to do.
func (m *mover) toOurs() {
	m.w.T.Helper()
	m.stop()
	certs := filepath.Join(m.w.Dir, m.name+"-certs")
	m.w.check(os.MkdirAll(certs, 0o755))
	m.w.check(m.identity().Mount(certs))
	port := lab.Port(m.w.T)
	agent, err := m.w.Sidecar(lab.Workload{
		Name: m.name + "-own", App: m.name, Version: "v1", IP: m.ip, ProxyPort: port, Discovery: m.w.discovery.GRPC, Flags: []string{"--certDir", certs},
	})
	m.w.check(err)
	m.w.StopAtEnd(m.name, agent)
	m.w.check(agent.AwaitReady())
	m.proxy, m.controlled = fmt.Sprintf("127.0.0.1:%d", port), "ours"
}

// asks waits until it is answered by the other one, which reads its account in the certificate; an empty account means plain text.
func (m *mover) asks(other *mover, account string) {
	m.w.T.Helper()
	url := "http://" + other.name + ".test/"
	right := func() error {
		got, err := lab.GetThrough(m.proxy, url)
		if plain := got == other.name+" is asked by <>"; err == nil && plain != (account == "") ||
			!strings.HasPrefix(got, other.name+" is asked by <") || account != "" && !strings.Contains(got, "URI="+account+">") {
			err = errors.Join(err, fmt.Errorf("the answer is %q, want that it names %q", got, account))
		}
		return err
	}
	if err := lab.Eventually(30*time.Second, right); err != nil {
		m.w.T.Fatalf("%s (%s) asks %s (%s): %v", m.name, m.controlled, other.name, other.controlled, err)
	}
	for range 20 {
		if err := right(); err != nil {
			m.w.T.Errorf("%s (%s) asks %s (%s) again: %v", m.name, m.controlled, other.name, other.controlled, err)
		}
	}
}

// takesPlain waits until plain text is answered, or until it is closed.
func (m *mover) takesPlain(want bool) {
	m.w.T.Helper()
	if err := lab.Eventually(30*time.Second, func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", m.ip, m.port), time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s.test\r\nConnection: close\r\n\r\n", m.name)
		answer, _ := io.ReadAll(c)
		if answered := strings.Contains(string(answer), m.name+" is asked by <>"); answered != want || !want && len(answer) > 0 {
			return fmt.Errorf("plain text is answered by %q, want an answer: %v", answer, want)
		}
		return nil
	}); err != nil {
		m.w.T.Fatalf("%s (%s): %v", m.name, m.controlled, err)
	}
}

// Two workloads move from istiod and Istio's agents to ours, one after the other. Before, between and after, each reaches the other
// under PERMISSIVE, STRICT and DISABLE, over HTTP, gRPC, and TCP where the client or the server speaks first: by mutual TLS, as the account that it
// has, but under DISABLE; plain text reaches neither under STRICT.
func TestWorkloadsMoveOneByOne(t *testing.T) {
	w := newWorld(t)
	authority, err := lab.NewAuthority("mesh")
	w.check(err)
	server := w.istiod()
	w.serve()
	a, b := w.mover(authority, "a", 1), w.mover(authority, "b", 2)
	a.other, b.other = b, a
	w.write("movers.yaml", a.config()+b.config())
	a.toIstiod(server)
	b.toIstiod(server)
	for _, step := range []func(){func() {}, b.toOurs, a.toOurs} {
		step()
		for _, mode := range []string{"PERMISSIVE", "STRICT", "DISABLE"} {
			w.write("mode.yaml", fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: %s}}\n", mode))
			t.Logf("a: %s, b: %s, %s", a.controlled, b.controlled, mode)
			for _, m := range []*mover{a, b} {
				m.takesPlain(mode != "STRICT")
				m.takesPlainFurther(mode)
			}
			asA, asB := a.account(), b.account()
			if mode == "DISABLE" {
				asA, asB = "", ""
			}
			a.asks(b, asA)
			b.asks(a, asB)
			a.asksFurther(b, asA)
			b.asksFurther(a, asB)
		}
	}
	if log := w.discovery.Log(); strings.Contains(log, "refused") || strings.Contains(log, "refuses") {
		t.Errorf("a proxy refused a part of its configuration:\n%s", log)
	}
}
