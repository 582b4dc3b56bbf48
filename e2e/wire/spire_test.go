//go:build wire

package wire

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// spire is a server of SPIRE, whose trust domain is that of the mesh.
type spire struct {
	w         *world
	dir, port string
}

// spire starts one, and waits until it takes commands.
func (w *world) spire() *spire {
	w.T.Helper()
	if _, err := os.Stat(lab.Path("bin", "spire", "made")); err != nil {
		w.T.Fatalf("%v: run make e2e-wire, which builds SPIRE", err)
	}
	s := &spire{w, lab.ShortDir(w.T), fmt.Sprint(lab.Port(w.T))}
	s.run("spire-server", "server.conf", fmt.Sprintf(`server {
	bind_address = "127.0.0.1"
	bind_port = %q
	socket_path = %q
	trust_domain = "cluster.local"
	data_dir = %q
}
plugins {
	DataStore "sql" { plugin_data { database_type = "sqlite3", connection_string = %q } }
	NodeAttestor "join_token" { plugin_data {} }
	KeyManager "memory" { plugin_data {} }
}
`, s.port, s.socket(), s.dir, filepath.Join(s.dir, "datastore.sqlite3")))
	w.check(lab.Eventually(time.Minute, func() error { _, err := s.try("healthcheck"); return err }))
	bundle, err := s.try("bundle", "show")
	w.check(err)
	w.check(os.WriteFile(s.roots(), bundle, 0o644))
	return s
}

func (s *spire) socket() string { return filepath.Join(s.dir, "server.sock") }
func (s *spire) roots() string  { return filepath.Join(s.dir, "roots.pem") }

func (s *spire) run(program, file, config string) *lab.Process {
	s.w.T.Helper()
	path := filepath.Join(s.dir, file)
	s.w.check(os.WriteFile(path, []byte(config), 0o600))
	return s.w.start(lab.Spec{Name: strings.TrimSuffix(file, ".conf"), Argv: []string{lab.Path("bin", "spire", program), "run", "-config", path}})
}

// try runs a command of spire-server.
func (s *spire) try(args ...string) ([]byte, error) {
	words := 1
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		words = 2
	}
	args = append(append(append([]string{}, args[:words]...), "-socketPath", s.socket()), args[words:]...)
	out, err := exec.CommandContext(s.w.T.Context(), lab.Path("bin", "spire", "spire-server"), args...).Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		err = fmt.Errorf("spire-server %q: %w: %s%s", args, err, out, failed.Stderr)
	}
	return out, err
}

// ask runs one whose answer is JSON.
func (s *spire) ask(into any, args ...string) {
	s.w.T.Helper()
	out, err := s.try(append(args, "-output", "json")...)
	s.w.check(err)
	s.w.check(json.Unmarshal(out, into))
}

// guarded is a workload on a machine of its own: SPIRE's agent there, and a sidecar whose certificates come from that.
type guarded struct {
	s                   *spire
	name, ip            string
	dir, node           string
	config              string // of SPIRE's agent
	entry               string
	agent               *lab.Process // SPIRE's
	sidecar             *lab.Sidecar
	inbound, proxy, app int // ports
}

func (s *spire) guard(name, ip string) *guarded {
	s.w.T.Helper()
	program := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(out, "%s is asked by <%s>", name, r.Header.Get("x-forwarded-client-cert"))
	}))
	s.w.T.Cleanup(program.Close)
	var token struct{ Value string }
	s.ask(&token, "token", "generate")
	g := &guarded{
		s: s, name: name, ip: ip, dir: lab.ShortDir(s.w.T), node: "spiffe://cluster.local/spire/agent/join_token/" + token.Value,
		inbound: lab.Port(s.w.T), proxy: lab.Port(s.w.T), app: portOf(program.Listener.Addr().String()),
	}
	text, err := os.ReadFile(lab.Path("docs", "certificates.md"))
	s.w.check(err)
	setting := regexp.MustCompile("`(sds {[^`]*})`").FindSubmatch(text)
	if setting == nil {
		s.w.T.Fatal("docs/certificates.md does not say how SPIRE's agent is set up")
	}
	g.config = fmt.Sprintf(`agent {
	data_dir = %q
	server_address = "127.0.0.1"
	server_port = %q
	socket_path = %q
	trust_bundle_path = %q
	trust_domain = "cluster.local"
	join_token = %q
	%s
}
plugins {
	NodeAttestor "join_token" { plugin_data {} }
	KeyManager "disk" { plugin_data { directory = %q } }
	WorkloadAttestor "unix" { plugin_data {} }
}
`, g.dir, s.port, filepath.Join(g.dir, "agent.sock"), s.roots(), token.Value, setting[1], g.dir)
	g.startAgent()
	return g
}

func (g *guarded) startAgent() {
	g.s.w.T.Helper()
	g.agent = g.s.run("spire-agent", g.name+"-spire-agent.conf", g.config)
}

// named has SPIRE know the workload: whatever this user runs there.
func (g *guarded) named(life int) {
	g.s.w.T.Helper()
	values := []string{
		"-parentID", g.node, "-spiffeID", "spiffe://cluster.local/ns/default/sa/" + g.name, "-selector", fmt.Sprintf("unix:uid:%d", os.Getuid()),
		"-x509SVIDTTL", fmt.Sprint(life),
	}
	if g.entry != "" {
		var updated any
		g.s.ask(&updated, append([]string{"entry", "update", "-entryID", g.entry}, values...)...)
		return
	}
	var created struct {
		Results []struct{ Entry struct{ ID string } }
	}
	g.s.ask(&created, append([]string{"entry", "create"}, values...)...)
	if len(created.Results) != 1 || created.Results[0].Entry.ID == "" {
		g.s.w.T.Fatalf("spire-server has made %+v", created)
	}
	g.entry = created.Results[0].Entry.ID
}

// startSidecar starts our agent, by the template of docs/certificates.md.
func (g *guarded) startSidecar() {
	w := g.s.w
	w.T.Helper()
	file := filepath.Join(g.dir, "spire.json.tmpl")
	template := strings.ReplaceAll(lab.Code(w.T, "docs/certificates.md", "template")[0], "/run/spire/sockets/agent.sock", filepath.Join(g.dir, "agent.sock"))
	w.check(os.WriteFile(file, []byte(template), 0o600))
	var err error
	g.sidecar, err = lab.Lab{Bin: w.Bin, Envoy: w.Envoy, Dir: g.dir}.Sidecar(lab.Workload{
		Name: g.name, App: g.name, IP: g.ip, ProxyPort: g.proxy, Discovery: w.discovery.GRPC, Flags: []string{"--templateFile", file, "--statusPort", "0"},
		Env: []string{"ISTIO_META_PILOTLIGHT_SDS=files", "ISTIO_META_PILOTLIGHT_CERTIFICATE=true"},
	})
	w.check(err)
	w.StopAtEnd(g.name, g.sidecar)
}

// mesh is what discovery reads of it.
func (g *guarded) mesh() string {
	return (&mover{name: g.name, ip: g.ip, port: g.inbound, program: g.app}).config()
}

func (g *guarded) at() string { return net.JoinHostPort(g.ip, fmt.Sprint(g.inbound)) }

// shows returns the certificate that its sidecar presents: its serial and its life.
func (g *guarded) shows() (serial string, life time.Duration, err error) {
	conn, err := tls.Dial("tcp", g.at(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio"}, ServerName: "outbound_.80_._." + g.name + ".test"})
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	leaf := conn.ConnectionState().PeerCertificates[0]
	if want := "spiffe://cluster.local/ns/default/sa/" + g.name; len(leaf.URIs) != 1 || leaf.URIs[0].String() != want {
		err = fmt.Errorf("%s shows %v, want %s", g.name, leaf.URIs, want)
	}
	return leaf.SerialNumber.Text(16), leaf.NotAfter.Sub(leaf.NotBefore), err
}

// shown waits until enough of what it shows is there.
func (g *guarded) shown(enough func(serial string, life time.Duration) bool) {
	g.s.w.T.Helper()
	if err := lab.Eventually(time.Minute, func() error {
		serial, life, err := g.shows()
		if err == nil && !enough(serial, life) {
			err = fmt.Errorf("%s shows certificate %s of %s", g.name, serial, life)
		}
		return err
	}); err != nil {
		g.s.w.T.Fatal(err)
	}
}

// Two workloads get their certificates from SPIRE's own agents, set up as docs/certificates.md says, and speak mutual TLS under STRICT. Before SPIRE
// knows a workload, it takes no connection. Certificates of half a minute are replaced under requests; SPIRE's agents go away, and what they served
// last stays, and come back, and renew: no request fails.
func TestSPIRE(t *testing.T) {
	w := newWorld(t)
	w.serve()
	s := w.spire()
	server, client := s.guard("server", w.Addresses+"1"), s.guard("client", w.Addresses+"2")
	w.write("mesh.yaml", server.mesh()+client.mesh()+
		"---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n")
	client.named(30)
	client.startSidecar()
	w.check(client.sidecar.AwaitReady())
	server.startSidecar()
	w.check(lab.Eventually(time.Minute, func() error {
		if log := server.agent.Log(); !strings.Contains(log, "is not authorized for the requested identities") {
			return fmt.Errorf("nobody has asked SPIRE's agent for the server's certificate:\n%s", lab.Tail(log))
		}
		return nil
	}))
	if text, err := lab.Get("http://" + server.sidecar.Admin + "/ready"); err == nil {
		t.Errorf("the server is ready without a certificate: %s", text)
	}
	if conn, err := net.Dial("tcp", server.at()); err == nil {
		conn.Close()
		t.Error("the server takes connections without a certificate")
	}
	server.named(30)
	w.check(server.sidecar.AwaitReady())

	proxy, url := fmt.Sprintf("127.0.0.1:%d", client.proxy), "http://server.test/"
	reads := func() {
		t.Helper()
		w.check(lab.Eventually(time.Minute, func() error {
			body, err := lab.GetThrough(proxy, url)
			if err == nil && !strings.Contains(body, "URI=spiffe://cluster.local/ns/default/sa/client>") {
				err = fmt.Errorf("answered by %q, want the client's identity", body)
			}
			return err
		}))
	}
	reads()
	if body, err := lab.Get("http://" + server.at() + "/"); err == nil {
		t.Errorf("plain text is answered by %q", body)
	}
	both := []*guarded{server, client}
	load, began := lab.StartSlowLoad(proxy, url, 1, 1, 5*time.Millisecond), time.Now()
	for _, g := range both {
		seen := map[string]bool{}
		g.shown(func(serial string, _ time.Duration) bool { seen[serial] = true; return len(seen) > 2 })
		g.named(3600) // the next one outlives the absence
	}
	last := map[*guarded]string{}
	for _, g := range both {
		g.shown(func(serial string, life time.Duration) bool { last[g] = serial; return life > 30*time.Minute })
	}
	for _, g := range both {
		g.agent.Stop(stopLimit)
		w.check(lab.Eventually(time.Minute, func() error {
			stats, err := lab.Stats(g.sidecar.Admin, `^cluster\.sds-grpc\.upstream_cx_(active|connect_fail)$`)
			if err == nil && (stats["cluster.sds-grpc.upstream_cx_active"] != 0 || stats["cluster.sds-grpc.upstream_cx_connect_fail"] == 0) {
				err = fmt.Errorf("%s has not lost SPIRE's agent: %v", g.name, stats)
			}
			return err
		}))
	}
	before := load.Requests()
	w.check(lab.Eventually(time.Minute, func() error {
		if n := load.Requests() - before; n < 200 {
			return fmt.Errorf("%d requests while SPIRE's agents are away", n)
		}
		return nil
	}))
	for _, g := range both {
		if serial, _, err := g.shows(); err != nil || serial != last[g] {
			t.Errorf("%s shows %s while SPIRE's agent is away, %v; want %s still", g.name, serial, err, last[g])
		}
		g.startAgent()
	}
	for _, g := range both {
		g.shown(func(serial string, _ time.Duration) bool { return serial != last[g] })
	}
	reads()
	t.Logf("under load for %s", time.Since(began).Round(time.Second))
	w.Unharmed(load)
}
