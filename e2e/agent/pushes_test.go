package agent

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// For a minute after a hot handover Envoy asks its parent for the socket of each new listener, and its main thread waits for the answer. Where
// the parent has ended early the agent answers.
func TestPushesAfterAHandover(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.run("--handover", "hot", "--parentShutdownDuration", "1m")
	load := g.lightLoad()
	g.configure(2)
	g.takesOver()
	pid := g.pid("serving")
	for revision := 2; revision < 7; revision++ {
		g.push(revision)
	}
	lab.Unharmed(t, load)
	if now := g.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d", now, pid)
	}
}

// push has discovery send the first listener with another filter chain, and one more.
func (g *gated) push(revision int) {
	g.t.Helper()
	host, port, _ := strings.Cut(g.address, ":")
	at := func(i int) string { return fmt.Sprintf("%s%d:%s", strings.TrimSuffix(host, "1"), i, port) }
	var listeners []string
	for i := 1; i <= revision; i++ {
		listeners = append(listeners, listenerOf(fmt.Sprint("inbound-", i), at(i), revision))
	}
	g.say(listeners...)
	for _, address := range []string{at(1), at(revision)} {
		there := *g.standalone
		there.address = address
		g.must(there.awaitRevision(revision, lab.StopLimit))
	}
}

// The same after the sockets of the agent and its Envoys were removed, as by a cleaner of /run: Envoy aborts where it finds none of its parent's.
// The agent opens another one, also where the parent still works.
func TestPushesAfterSocketsAreRemoved(t *testing.T) {
	t.Parallel()
	for name, works := range map[string]bool{"the parent has left": false, "the parent works": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGated(t)
			g.run("--parentShutdownDuration", "1m")
			load := g.lightLoad()
			var held <-chan error
			if works {
				held = g.hold()
			}
			g.configure(2)
			g.must(g.AwaitLog("why=hot"))
			pid, revision := g.pid("serving"), 2
			g.push(revision)
			for range 2 {
				g.must(lab.RemoveSockets(g.ConfigPath))
				g.must(lab.Eventually(lab.StopLimit, func() error {
					if found, err := filepath.Glob(filepath.Join(g.ConfigPath, "hot-*_parent_*")); err != nil || len(found) == 0 {
						return fmt.Errorf("no socket is there in the place of the parent's, %w", err)
					}
					return nil
				}))
				revision++
				g.push(revision)
			}
			if works {
				close(g.program.held)
				g.must(<-held)
			}
			lab.Unharmed(t, load)
			if now := g.pid("serving"); now != pid {
				t.Errorf("process %d serves, want still %d", now, pid)
			}
			g.configure(revision + 1)
			g.must(g.AwaitLog("why=side-by-side"))
			if strings.Contains(g.Log(), "a newcomer failed") {
				t.Error("a hot restart was tried without a socket")
			}
		})
	}
}

// The same for pushes of a secret, of the listener that waits for it, and of runtime.
func TestSecretsAndRuntimeAfterAHandover(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	dir := t.TempDir()
	secret, runtime := filepath.Join(dir, "secret.json"), filepath.Join(dir, "runtime.json")
	put := func(path string, resources string) {
		t.Helper()
		g.must(os.WriteFile(path+"~", []byte(`{"resources": [`+resources+`]}`), 0o600))
		g.must(os.Rename(path+"~", path))
	}
	source := func(path string) string {
		return fmt.Sprintf(`{"resource_api_version": "V3", "initial_fetch_timeout": "0s", "path_config_source": {"path": %q}}`, path)
	}
	keys := func(value int) {
		put(runtime, fmt.Sprintf(`{"@type": "type.googleapis.com/envoy.service.runtime.v3.Runtime", "name": "pushed", "layer": {"pushed.key": %d}}`, value))
	}
	put(secret, "")
	keys(1)
	g.bare = strings.Replace(g.bare, `"static_resources"`,
		`"layered_runtime": {"layers": [{"name": "pushed", "rtds_layer": {"name": "pushed", "rtds_config": `+source(runtime)+`}}]}, "static_resources"`, 1)
	g.configure(1)
	g.run("--handover", "hot", "--parentShutdownDuration", "1m")
	load := g.lightLoad()
	g.configure(2)
	g.takesOver()
	pid := g.pid("serving")

	host, port, _ := strings.Cut(g.address, ":")
	at := strings.TrimSuffix(host, "1") + "2:" + port
	g.say(listenerOf("inbound", g.address, 2), strings.Replace(listenerOf("tls", at, 2), `"filter_chains": [{`, `"filter_chains": [{"transport_socket": {"name": "tls",
		"typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": {
			"tls_certificate_sds_secret_configs": [{"name": "pushed", "sds_config": `+source(secret)+`}]}}}, `, 1))
	authority, err := lab.NewAuthority("mesh")
	g.must(err)
	for serial := int64(2); serial < 5; serial++ {
		identity, err := authority.Issue("server.test", serial)
		g.must(err)
		put(secret, fmt.Sprintf(`{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "pushed",
			"tls_certificate": {"certificate_chain": {"inline_string": %q}, "private_key": {"inline_string": %q}}}`, identity.Chain, identity.Key))
		keys(int(serial))
		g.must(lab.Eventually(lab.StopLimit, func() error {
			conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: authority.Pool(), ServerName: "server.test"})
			if err != nil {
				return err
			}
			defer conn.Close()
			if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
				return fmt.Errorf("certificate %d is shown, want %d", got, serial)
			}
			text, err := lab.Get("http://" + g.Admin + "/runtime")
			if want := fmt.Sprintf(`"final_value": "%d"`, serial); err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("runtime lacks %s: %s", want, text)
			}
			return err
		}))
	}
	lab.Unharmed(t, load)
	if now := g.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d", now, pid)
	}
}

// A parent is killed before its newcomer has asked it anything: another Envoy takes its place at once, and its listeners share their ports,
// so that the next handover can be one side by side.
func TestAHandoverSideBySideAfterAParentWasKilled(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	g.must(os.WriteFile(settings, []byte("handover: hot\n"), 0o600))
	g.run("--config", settings)
	parent := g.pid("serving")
	g.configure(2)
	g.must(g.AwaitLog(`msg="Envoy started" epoch=1`))
	g.must(syscall.Kill(parent, syscall.SIGKILL))
	g.takesOver()
	g.must(os.WriteFile(settings, []byte("handover: side-by-side\n"), 0o600))
	g.must(g.upgrade("")) // the setting is in force
	g.configure(3)
	g.takesOver()
	g.must(g.AwaitLog("why=side-by-side"))
}
