//go:build registries

package registries

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Consul loses its data: the services that discovery had from it are held, longer than the adapter waits for them, under
// traffic, and named. They go when an operator says so.
func TestConsulLosesItsData(t *testing.T) {
	w := newWorld(t)
	server := w.consulServer()
	port := w.port()
	w.backend("one", 11, port)
	for _, name := range []string{"web", "shop", "cart", "mail"} {
		w.check(server.external(name, name, fmt.Sprint(w.Addresses, 11), port, "passing", 1))
	}
	w.serve("--registries", "Consul", "--consulserverURL", server.url, "--wipeDelay", "10m")
	w.sidecar("--serviceregistry", "Consul", "--id", "client.service.consul", "--domain", "service.consul")
	url := fmt.Sprintf("http://web.service.consul:%d/", port)
	w.answers(url, "one")
	load := w.load(url)

	server.kill()
	w.check(os.RemoveAll(filepath.Join(w.Dir, "server")))
	server.restart()
	w.eventually("source Consul: 4 of 4 hosts are gone at once", func() string { return w.get("/ready?verbose") })
	w.eventually("groups of a source are gone at once and held", w.discovery.Log)
	w.thousand(load)
	w.answers(url, "one")
	w.Unharmed(load)

	out, err := exec.Command(lab.Program("discovery"), "release", "Consul", "--httpAddr", w.discovery.HTTP).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "no longer held") {
		t.Errorf("discovery release: %v: %s", err, out)
	}
	w.check(lab.Eventually(time.Minute, func() error {
		if page := w.get("/debug/registryz"); strings.Contains(page, "web.service.consul") {
			return fmt.Errorf("released, it is still served: %s", page)
		}
		return nil
	}))
}
