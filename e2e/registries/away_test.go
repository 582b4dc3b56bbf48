//go:build registries

package registries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Consul is down, and discovery is restarted, killed once and stopped once: what it had kept is served, to Envoys that are new
// too; no request fails, and what changes in its other source arrives. When Consul is back, its changes do.
func TestARestartWhileConsulIsAway(t *testing.T) {
	w := newWorld(t)
	server, port, file := w.consulBesideAFile()
	state := filepath.Join(w.Dir, "state")
	w.serve("--registries", "Consul", "--consulserverURL", server.url, "--stateDir", state)
	sidecar := []string{"--serviceregistry", "Consul", "--id", "client.service.consul", "--domain", "service.consul"}
	w.sidecar(sidecar...)
	url := fmt.Sprintf("http://web.service.consul:%d/", port)
	w.answers(url, "one")
	w.answers("http://file.test/", "two")
	w.check(lab.Eventually(30*time.Second, func() error {
		if found, err := filepath.Glob(filepath.Join(state, "*.state")); err != nil || len(found) != 2 {
			return fmt.Errorf("kept are %v, %v", found, err)
		}
		return nil
	}))
	load, proxy := w.load(url), w.proxy

	server.kill()
	for i, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		w.discovery.Signal(end)
		_, err := w.discovery.Wait(stopLimit)
		w.check(err)
		w.check(w.discovery.Restart())
		w.eventually("groups are from before the start, of ", func() string { return w.get("/ready?verbose") })
		file([]string{"changed.test", "again.test"}[i], 11)
		w.answers([]string{"http://changed.test/", "http://again.test/"}[i], "one")
		w.sidecarAs(fmt.Sprint("late-", i), 2+i, sidecar...)
		w.answers(url, "one")
		w.thousand(load)
		w.proxy = proxy
	}
	w.eventually(`pilotlight_source_remembered_groups{source="Consul"} 4`, w.metrics)

	server.restart()
	w.check(server.external("web", "web", fmt.Sprint(w.Addresses, 12), port, "passing", 1))
	w.answers(url, "two")
	w.check(lab.Eventually(time.Minute, func() error {
		if page := w.get("/ready?verbose"); strings.Contains(page, "before the start") {
			return fmt.Errorf("with Consul it says %s", page)
		}
		return nil
	}))
	w.Unharmed(load)
}

// consulBesideAFile starts two backends, one and two, and a Consul that has four services at the first of them. The other source is a file:
// the function that is returned makes host its only one, at the backend whose address has that last byte, 11 or 12. It is file.test, at 12.
func (w *world) consulBesideAFile() (server *consul, port int, file func(host string, last int)) {
	w.T.Helper()
	server, port = w.consulServer(), w.port()
	w.backend("one", 11, port)
	w.backend("two", 12, port)
	for _, name := range []string{"web", "shop", "cart", "mail"} {
		w.check(server.external(name, name, fmt.Sprint(w.Addresses, 11), port, "passing", 1))
	}
	w.configDir = filepath.Join(w.Dir, "config")
	w.check(os.Mkdir(w.configDir, 0o755))
	file = func(host string, last int) {
		text := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: file}\nspec: {hosts: [%s], resolution: STATIC, "+
			"ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: %s%d, ports: {http: %d}}]}\n", host, w.Addresses, last, port)
		path := filepath.Join(w.configDir, "file.yaml")
		w.check(os.WriteFile(path+"~", []byte(text), 0o644))
		w.check(os.Rename(path+"~", path))
	}
	file("file.test", 12)
	return server, port, file
}
