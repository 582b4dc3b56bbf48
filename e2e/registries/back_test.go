//go:build registries

package registries

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// restartDiscovery kills discovery and starts it, and waits until it is ready.
func (w *world) restartDiscovery() {
	w.T.Helper()
	w.discovery.Signal(syscall.SIGKILL)
	_, err := w.discovery.Wait(stopLimit)
	w.check(err)
	w.check(w.discovery.Restart())
}

func (w *world) metrics() string {
	w.T.Helper()
	text, err := lab.Get("http://" + w.discovery.Monitoring + "/metrics")
	w.check(err)
	return text
}

// Consul is down, and discovery, which keeps no state, is restarted twice: an Envoy that comes back keeps what it has, under load,
// and a new one gets what there is of the other source. When Consul is back, so are changes, of both.
func TestARestartWithoutStateWhileConsulIsAway(t *testing.T) {
	w := newWorld(t)
	server, port, file := w.consulBesideAFile()
	w.serve("--registries", "Consul", "--consulserverURL", server.url, "--optionalSources", "Consul", "--registrySyncTimeout", "1s")
	sidecar := []string{"--serviceregistry", "Consul", "--id", "client.service.consul", "--domain", "service.consul"}
	w.sidecar(sidecar...)
	url := fmt.Sprintf("http://web.service.consul:%d/", port)
	w.answers(url, "one")
	w.answers("http://file.test/", "two")
	load, files, proxy := w.load(url), w.load("http://file.test/"), w.proxy

	server.kill()
	for i := range 2 {
		w.restartDiscovery()
		w.eventually("proxies: 1 came back and keep what they have, since nothing is known of source Consul: ", func() string { return w.get("/ready?verbose") })
		w.eventually(`pilotlight_xds_waiting_proxies{reason="source"} 1`, w.metrics)
		w.eventually(`pilotlight_source_lacking{source="Consul"} 1`, w.metrics)
		w.eventually("nothing is known of a source: proxies that come back keep what they have", w.discovery.Log)
		w.sidecarAs(fmt.Sprint("late-", i), 2+i, sidecar...)
		w.answers("http://file.test/", "two")
		if body, err := lab.GetThrough(w.proxy, url); err == nil {
			t.Errorf("a new Envoy has a service of Consul: %q", body)
		}
		w.proxy = proxy
		w.thousand(load)
	}

	server.restart()
	w.check(server.external("web", "web", fmt.Sprint(w.Addresses, 12), port, "passing", 1))
	w.answers(url, "two")
	w.eventually(`pilotlight_xds_waiting_proxies{reason="source"} 0`, w.metrics)
	w.Unharmed(load)
	w.Unharmed(files)
	file("changed.test", 11)
	w.answers("http://changed.test/", "one")
	if page := w.get("/ready?verbose"); strings.Contains(page, "came back") {
		t.Errorf("at the end it says %s", page)
	}
}

// Eureka loses its instances while discovery, which keeps no state, is away, and comes back with one of twenty: an Envoy that comes
// back would lose most of its clusters, and keeps them, under load, until they are there again. A new one gets the one.
func TestEurekaComesBackWithLittle(t *testing.T) {
	const apps = 20
	w := newWorld(t)
	e := w.eureka()
	port := w.port()
	w.backend("one", 11, port)
	name := func(i int) string { return fmt.Sprint("app", i) }
	register := func(from, to int) {
		for i := from; i < to; i++ {
			w.check(e.register(name(i), name(i), fmt.Sprint(w.Addresses, 11), port, "UP"))
		}
	}
	url := func(i int) string { return fmt.Sprintf("http://%s.service.eureka:%d/", name(i), port) }
	register(0, apps)
	w.serve("--registries", "Eureka", "--eurekaserverURL", e.url, "--eurekaserverInterval", "500ms", "--wipeDelay", "10m")
	w.sidecar("--serviceregistry", "Eureka")
	w.answers(url(apps-1), "one")
	load, proxy := w.load(url(apps-1)), w.proxy

	e.kill()
	w.discovery.Signal(syscall.SIGKILL)
	_, err := w.discovery.Wait(stopLimit)
	w.check(err)
	e.restart()
	register(0, 1)
	w.check(w.discovery.Restart())
	w.eventually("proxies: 1 came back and keep what they have, since most of their clusters are gone at once, until ", func() string { return w.get("/ready?verbose") })
	w.eventually("would lose 19 of ", func() string { return w.get("/ready?verbose") })
	w.eventually("most clusters of a proxy that came back are gone at once", w.discovery.Log)
	w.sidecarAs("late", 2, "--serviceregistry", "Eureka")
	w.answers(url(0), "one")
	w.proxy = proxy
	w.thousand(load)

	register(1, apps)
	w.eventually(`pilotlight_xds_waiting_proxies{reason="removal"} 0`, w.metrics)
	w.check(e.register("more", "more", fmt.Sprint(w.Addresses, 11), port, "UP"))
	w.answers(fmt.Sprintf("http://more.service.eureka:%d/", port), "one")
	w.Unharmed(load)
	w.check(lab.Eventually(30*time.Second, func() error {
		if page := w.get("/ready?verbose"); strings.Contains(page, "came back") {
			return fmt.Errorf("at the end it says %s", page)
		}
		return nil
	}))
}

// Eureka and discovery are restarted, and Eureka has one of four instances of a service: discovery serves the four that it had kept, under
// load, until they are there again.
func TestEurekaForgetsInstancesAcrossARestart(t *testing.T) {
	w := newWorld(t)
	e := w.eureka()
	port := w.port()
	var all []*backend
	names := []string{"one", "two", "three", "four"}
	for i, name := range names {
		all = append(all, w.backend(name, 11+i, port))
		e.backend(all[i], "UP")
	}
	state := filepath.Join(w.Dir, "state")
	w.serve("--registries", "Eureka", "--eurekaserverURL", e.url, "--eurekaserverInterval", "500ms", "--wipeDelay", "10m", "--stateDir", state)
	w.sidecar("--serviceregistry", "Eureka")
	url := fmt.Sprintf("http://web.service.eureka:%d/", port)
	w.answers(url, names...)
	load := w.load(url)

	w.discovery.Signal(syscall.SIGTERM) // it writes what it has
	_, err := w.discovery.Wait(stopLimit)
	w.check(err)
	e.kill()
	e.restart()
	e.backend(all[0], "UP")
	w.check(w.discovery.Restart())
	w.eventually("source Eureka: 3 of 4 endpoints are gone at once", func() string { return w.get("/ready?verbose") })
	w.thousand(load)
	w.answers(url, names...)
	for _, b := range all[1:] {
		e.backend(b, "UP")
	}
	w.check(lab.Eventually(30*time.Second, func() error {
		if page := w.get("/ready?verbose"); strings.Contains(page, "gone at once") {
			return fmt.Errorf("all are there, and it says %s", page)
		}
		return nil
	}))
	w.answers(url, names...)
	w.check(send("DELETE", e.url+"/apps/WEB/one", "", nil))
	w.answers(url, names[1:]...)
	w.Unharmed(load)
}
