package policies

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// mesh is a service behind a gateway of plain text and of mutual TLS, and behind a sidecar of its own.
type mesh struct {
	*lab.World
	plain, secured int // ports of the gateway
	roots          *lab.Authority
	serial         int64
	from           string // the address from which the provider of gRPC lets connections in
}

func newMesh(t *testing.T, flags ...string) *mesh {
	t.Helper()
	m := &mesh{World: lab.NewWorld(t, crd.Sound, flags...), plain: lab.Port(t), secured: lab.Port(t), serial: 10}
	var err error
	m.roots, err = lab.NewAuthority("mesh")
	m.Check(err)
	id, err := m.roots.Issue("gateway.test", 1)
	m.Check(err)
	m.Check(id.Write(m.Dir, "gateway"))
	m.Service("app.test", m.Backend("app"))
	m.Apply("Gateway gw", fmt.Sprintf(`
		selector: {gateway: gw}
		servers:
		- {port: {number: %d, name: http, protocol: HTTP}, hosts: ["*"]}
		- {port: {number: %d, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: MUTUAL, serverCertificate: %[3]s/gateway.pem, privateKey: %[3]s/gateway.key, caCertificates: %[3]s/ca.pem}}`,
		m.plain, m.secured, m.Dir),
		"VirtualService app", `
		hosts: ["*"]
		gateways: [gw]
		http: [{route: [{destination: {host: app.test}}]}]`)
	return m
}

// policy writes an AuthorizationPolicy, sound or not.
func (m *mesh) policy(name, spec string) {
	m.T.Helper()
	path := filepath.Join(m.Config, name+".yaml")
	text := fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	m.Check(os.WriteFile(path+"~", []byte(text), 0o644))
	m.Check(os.Rename(path+"~", path))
}

// as returns a client of the gateway; with "" as its name, one of plain text.
func (m *mesh) as(account string) (client *http.Client, url string) {
	m.T.Helper()
	if account == "" {
		return lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", m.plain), nil), "http://gateway.test/"
	}
	m.serial++
	id, err := m.roots.Issue("spiffe://cluster.local/ns/default/sa/"+account, m.serial)
	m.Check(err)
	pair, err := id.Pair()
	m.Check(err)
	config := &tls.Config{RootCAs: m.roots.Pool(), ServerName: "gateway.test", Certificates: []tls.Certificate{pair}}
	return lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", m.secured), config), "https://gateway.test/"
}

// answers waits until each client gets its status.
func (m *mesh) answers(want map[string]int) {
	m.T.Helper()
	for account, status := range want {
		client, url := m.as(account)
		m.Await(client, url, lab.Status(status))
	}
}

const reader = `{rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/reader]}}]}]}`

// A policy goes its whole way, from a file to the answer of a gateway. A mistake in it changes nothing; after a restart of
// discovery, which knows no earlier form, it lets nobody in; and it is mended without a restart.
func TestAPolicyOnItsWholeWay(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.GatewayEnvoy("gw")
	m.answers(map[string]int{"": 200, "reader": 200, "thief": 200})
	m.policy("readers", reader)
	m.answers(map[string]int{"": 403, "reader": 200, "thief": 403})
	m.policy("readers", strings.Replace(reader, "principals", "principls", 1))
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		if log := m.Discovery.Log(); !strings.Contains(log, "principls") {
			return fmt.Errorf("discovery has not read the mistake:\n%s", log)
		}
		return nil
	}))
	m.answers(map[string]int{"": 403, "reader": 200, "thief": 403})
	m.Discovery.Stop(lab.StopLimit)
	m.answers(map[string]int{"": 403, "reader": 200, "thief": 403})
	m.Check(m.Discovery.Restart())
	m.answers(map[string]int{"": 403, "reader": 403, "thief": 403})
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		notes, err := lab.Get("http://" + m.Discovery.HTTP + "/debug/notes")
		if err == nil && !strings.Contains(notes, "closed-policy") {
			err = fmt.Errorf("the notes are %s", notes)
		}
		return err
	}))
	m.policy("readers", reader)
	m.answers(map[string]int{"": 403, "reader": 200, "thief": 403})
	m.policy("readers", `{action: DENY, rules: [{from: [{source: {notPrincipals: ["*/sa/reader"]}}], to: [{operation: {methods: [GET]}}]}]}`)
	m.answers(map[string]int{"": 403, "reader": 200, "thief": 403})
	m.Check(os.Remove(filepath.Join(m.Config, "readers.yaml")))
	m.answers(map[string]int{"": 200, "reader": 200, "thief": 200})
}

// A file of which not even the names can be read holds discovery back: an Envoy that comes meanwhile gets no listener, and
// one that is there keeps its policies.
func TestAnUnreadablePolicyOpensNothing(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.policy("readers", reader)
	m.GatewayEnvoy("gw")
	m.answers(map[string]int{"": 403, "reader": 200})
	m.Discovery.Stop(lab.StopLimit)
	m.Check(os.WriteFile(filepath.Join(m.Config, "readers.yaml"), []byte("apiVersion: security.istio.io/v1\nkind: [Auth"), 0o644))
	m.Check(m.Discovery.Start())
	ready := func() (page string, err error) { return lab.Get("http://" + m.Discovery.HTTP + "/ready?verbose") }
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		page, err := ready()
		if err == nil {
			t.Fatalf("discovery is ready without the policy: %s", page)
		}
		if !strings.Contains(err.Error(), "readers.yaml") {
			return fmt.Errorf("/ready says %w", err)
		}
		return nil
	}))
	m.answers(map[string]int{"": 403, "reader": 200})
	if page, err := ready(); err == nil {
		t.Errorf("discovery is ready without the policy: %s", page)
	}
	m.policy("readers", reader)
	m.answers(map[string]int{"": 403, "reader": 200})
}

// A sidecar keeps out from its workload whom a policy with its labels names, checks the tokens that a RequestAuthentication with its labels
// names, and asks the provider of a CUSTOM policy about requests and connections. No other sidecar does.
func TestAPolicyAtASidecar(t *testing.T) {
	t.Parallel()
	m := newMesh(t, meshOfProviders(t)...)
	m.serveProviders()
	ports, bytes := map[string]int{}, lab.Port(t)
	for _, name := range []string{"web", "shop"} {
		b := m.BackendAt("127.0.0.1", name)
		ports[name] = lab.Port(t)
		ingress := fmt.Sprintf(`{port: {number: %d, name: http, protocol: HTTP}, bind: 127.0.0.1, captureMode: NONE, defaultEndpoint: "127.0.0.1:%d"}`, ports[name], b.Port)
		if name == "web" {
			ingress += fmt.Sprintf(`, {port: {number: %d, name: tcp, protocol: TCP}, bind: 127.0.0.1, captureMode: NONE, defaultEndpoint: "127.0.0.1:%d"}`, bytes, lab.Doubling(t))
		}
		m.Apply("Sidecar "+name, fmt.Sprintf("workloadSelector: {labels: {app: %s}}\ningress: [%s]", name, ingress))
		m.SidecarEnvoy(name, "")
	}
	ask := func(name, path string, status int, header ...string) {
		t.Helper()
		client := lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", ports[name]), nil)
		m.Check(lab.Eventually(lab.StopLimit, func() error {
			a, err := lab.Exchange(client, http.MethodGet, "http://"+name+".test"+path, header...)
			if err == nil {
				err = lab.Status(status)(a)
			}
			if err != nil {
				return fmt.Errorf("%s%s with %v: %w", name, path, header, err)
			}
			return nil
		}))
	}
	const web = "selector: {matchLabels: {app: web}}"
	m.policy("secret", `{`+web+`, action: DENY, rules: [{to: [{operation: {paths: ["/secret/{**}"]}}]}]}`)
	ask("web", "/secret/x", 403)
	ask("web", "/open", 200)
	ask("shop", "/secret/x", 200)

	one, stranger := lab.NewIssuer(t, "one.test"), lab.NewIssuer(t, "one.test")
	m.authentication("web", fmt.Sprintf("{%s, jwtRules: [{issuer: one.test, jwks: '%s', spaceDelimitedClaims: [roles]}]}", web, one.Keys()))
	admin, reader := bearer(one.Token(t, map[string]any{"roles": "a admin"})), bearer(one.Token(t, nil))
	ask("web", "/open", 401, bearer(stranger.Token(t, nil))...)
	ask("web", "/open", 200, reader...)
	ask("web", "/open", 200)
	ask("shop", "/open", 200, bearer("nonsense")...)
	m.policy("admins", "{"+web+`, rules: [{when: [{key: "request.auth.claims[roles]", values: [admin]}]}, {from: [{source: {requestPrincipals: ["one.test/reader"]}}], to: [{operation: {paths: [/read]}}]}]}`)
	ask("web", "/open", 403)
	ask("web", "/open", 403, reader...)
	ask("web", "/read", 200, reader...)
	ask("web", "/open", 200, admin...)
	ask("shop", "/open", 200)
	m.Check(os.Remove(filepath.Join(m.Config, "admins.yaml")))
	ask("web", "/open", 200)

	m.policy("asked", "{"+web+`, action: CUSTOM, provider: {name: grpc}, rules: [{to: [{operation: {paths: ["/in/{**}"]}}]}]}`)
	ask("web", "/in/a", 402)
	ask("web", "/in/a", 200, "x-pass", "1")
	ask("web", "/open", 200)
	ask("shop", "/in/a", 200)
	m.askedOfConnections(bytes, web)
}

// askedOfConnections has the provider of gRPC decide about the connections to a port of TCP, by the address from which they come.
func (m *mesh) askedOfConnections(port int, selector string) {
	m.T.Helper()
	dial := func(from string) error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: lab.StopLimit}
		c, err := d.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		defer c.Close()
		m.Check(c.SetDeadline(time.Now().Add(lab.StopLimit)))
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		_, err = io.ReadFull(c, make([]byte, 10))
		return err
	}
	served := func(from string, want bool) {
		m.T.Helper()
		m.Check(lab.Eventually(lab.StopLimit, func() error {
			if err := dial(from); (err == nil) != want {
				return fmt.Errorf("a connection from %s: %w; served: want %t", from, err, want)
			}
			return nil
		}))
	}
	other := m.Address()
	served(other, false) // the policy that denies paths closes ports without paths
	for _, name := range []string{"secret", "asked"} {
		m.Check(os.Remove(filepath.Join(m.Config, name+".yaml")))
	}
	served(other, true)
	m.policy("connections", fmt.Sprintf(`{%s, action: CUSTOM, provider: {name: grpc}, rules: [{to: [{operation: {ports: ["%d"]}}]}]}`, selector, port))
	served(other, false)
	served(m.from, true)
}
