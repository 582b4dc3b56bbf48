//go:build registries

package registries

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// eureka is a Eureka server of Spring Cloud. It keeps all its records in memory only.
type eureka struct {
	*part
	url string
}

// eureka starts a server. Evictions come after a second, and no answer is older than a change.
func (w *world) eureka() *eureka {
	w.T.Helper()
	jars, port := needs(w.T, "eureka"), w.port()
	e := &eureka{url: fmt.Sprintf("http://%s/eureka", local(port))}
	e.part = w.part(lab.Spec{Name: "eureka", Argv: append(lab.Java(w.T),
		"-XX:+UseSerialGC", "-Xmx256m", "-cp", jars+":"+jars+"/*", "Eureka",
		"--server.address=127.0.0.1", fmt.Sprintf("--server.port=%d", port),
		"--eureka.client.register-with-eureka=false", "--eureka.client.fetch-registry=false",
		"--eureka.server.enable-self-preservation=false", "--eureka.server.eviction-interval-timer-in-ms=1000",
		"--eureka.server.use-read-only-response-cache=false", "--eureka.server.wait-time-in-ms-when-sync-empty=0",
	)}, func() error {
		_, err := lab.Get(e.url + "/apps")
		return err
	})
	return e
}

// register registers an instance, or changes it. Nobody renews it: its lease is ten minutes.
func (e *eureka) register(app, id, ip string, port int, status string) error {
	return e.registerAs(app, id, ip, port, status, app)
}

// registerAs registers an instance with a vipAddress.
func (e *eureka) registerAs(app, id, ip string, port int, status, vip string) error {
	return send("POST", e.url+"/apps/"+app, "", map[string]any{"instance": map[string]any{
		"instanceId": id, "hostName": id, "app": strings.ToUpper(app), "ipAddr": ip, "status": status, "vipAddress": vip, "secureVipAddress": vip,
		"port": map[string]any{"$": port, "@enabled": "true"}, "securePort": map[string]any{"$": 443, "@enabled": "false"},
		"dataCenterInfo": map[string]any{"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
		"leaseInfo":      map[string]any{"renewalIntervalInSecs": 30, "durationInSecs": 600},
	}})
}

func (e *eureka) backend(b *backend, status string) {
	e.w.T.Helper()
	e.w.check(e.register("web", b.name, b.ip, b.port, status))
}

// Two instances, one of which is DOWN, are balanced by their status, as it changes. Eureka is killed and comes back empty under traffic: no
// request fails, both instances are served though only one has renewed, and later changes arrive.
func TestEureka(t *testing.T) {
	w := newWorld(t)
	e := w.eureka()
	port := w.port()
	one, two := w.backend("one", 11, port), w.backend("two", 12, port)
	e.backend(one, "UP")
	e.backend(two, "DOWN")
	// The first server is away: the second is asked.
	w.serve("--registries", "Eureka", "--eurekaserverURL", "http://"+local(w.port())+"/eureka,"+e.url, "--eurekaserverInterval", "500ms")
	w.sidecar("--serviceregistry", "Eureka")
	url := fmt.Sprintf("http://web.service.eureka:%d/", port)
	set := func(b *backend, status string) {
		t.Helper()
		w.check(send("PUT", e.url+"/apps/WEB/"+b.name+"/status?value="+status, "", nil))
	}

	w.answers(url, "one")
	e.backend(two, "UP")
	w.answers(url, "one", "two")
	set(one, "OUT_OF_SERVICE")
	w.answers(url, "two")
	set(two, "OUT_OF_SERVICE")
	w.unavailable(url) // even if all are out of service, none gets a request
	set(two, "DOWN")
	w.unavailable(url)
	set(two, "UP")
	w.answers(url, "two")
	set(one, "UP")
	w.answers(url, "one", "two")

	load := w.load(url)
	e.kill()
	w.eventually("source Eureka: it failed", func() string { return w.get("/ready?verbose") })
	w.answers(url, "one", "two")
	w.thousand(load) // while it is away
	e.restart()
	w.eventually("Eureka's answers lack it", func() string { return w.get("/ready?verbose") })
	e.backend(one, "UP")
	w.answers(url, "one", "two")
	w.thousand(load)
	w.Unharmed(load)

	w.check(send("DELETE", e.url+"/apps/WEB/one", "", nil))
	w.answers(url, "two")
	three := w.backend("three", 13, port)
	e.backend(three, "UP")
	w.answers(url, "two", "three")
}

// The time from a change until Envoy has it.
func TestEurekaChangeToEnvoy(t *testing.T) {
	w := newWorld(t)
	e := w.eureka()
	w.check(e.register("web", "one", "127.0.0.1", 1, "UP"))
	w.serve("--registries", "Eureka", "--eurekaserverURL", e.url)
	w.sidecar()
	health := func() string { return w.field("outbound|1||web.service.eureka", "127.0.0.1:1", "health_flags") }
	w.eventually("healthy", health)
	w.timed("another status, with a question every 2 s,", 10, func(i int) (change func() error, arrived func() bool) {
		next := [][2]string{{"DOWN", "/failed_eds_health"}, {"UP", "healthy"}}[i%2]
		return func() error { return e.register("web", "one", "127.0.0.1", 1, next[0]) }, func() bool { return health() == next[1] }
	})
}
