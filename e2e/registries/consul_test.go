//go:build registries

package registries

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// consul is an agent of Consul: a server, or a client of one.
type consul struct {
	*part
	url   string
	serf  string // host:port where others join it
	token string // "" for none
}

// consul starts an agent. Further settings win over these.
func (w *world) consul(name string, further map[string]any) *consul {
	w.T.Helper()
	http, serf := w.port(), w.port()
	settings := map[string]any{
		"node_name": name, "data_dir": filepath.Join(w.Dir, name), "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		"disable_update_check": true, "connect": map[string]any{"enabled": false}, "log_level": "warn",
		"performance": map[string]any{"raft_multiplier": 1},
		"ports": map[string]any{
			"http": http, "server": w.port(), "serf_lan": serf, "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	}
	maps.Copy(settings, further)
	text, err := json.Marshal(settings)
	w.check(err)
	file := filepath.Join(w.Dir, name+".json")
	w.check(os.WriteFile(file, text, 0o644))
	c := &consul{url: "http://" + local(http), serf: local(serf)}
	c.part = w.part(lab.Spec{Name: name, Argv: []string{needs(w.T, "consul"), "agent", "-config-file=" + file}}, func() error {
		leader, err := lab.Get(c.url + "/v1/status/leader")
		if err == nil && leader == `""` {
			err = fmt.Errorf("%s has no leader", name)
		}
		return err
	})
	return c
}

func (w *world) consulServer() *consul {
	w.T.Helper()
	return w.consul("server", map[string]any{"server": true, "bootstrap_expect": 1})
}

func (c *consul) put(path string, body any) {
	c.w.T.Helper()
	c.w.check(send("PUT", c.url+path, c.token, body))
}

// register registers a backend with an agent, which asks for its health every second.
func (c *consul) register(service string, b *backend) {
	c.w.T.Helper()
	c.put("/v1/agent/service/register", map[string]any{
		"ID": b.name, "Name": service, "Address": b.ip, "Port": b.port, "Meta": map[string]string{"protocol": "http"},
		"Check": map[string]any{"HTTP": fmt.Sprintf("http://%s:%d/health", b.ip, b.port), "Interval": "1s"},
	})
}

// external registers an instance with the catalogue itself, on a node of its own, as one whose health something else knows.
func (c *consul) external(service, id, ip string, port int, status string, weight int) error {
	return send("PUT", c.url+"/v1/catalog/register", c.token, map[string]any{
		"Node": id, "Address": ip, "SkipNodeUpdate": false,
		"Service": map[string]any{
			"ID": id, "Service": service, "Port": port, "Meta": map[string]string{"protocol": "http"}, "Weights": map[string]int{"Passing": weight, "Warning": 1},
		},
		"Check": map[string]any{"Node": id, "CheckID": "service:" + id, "ServiceID": id, "Name": "alive", "Status": status},
	})
}

// Two instances, one of which fails its check, are balanced by their health, as it changes. Consul is killed and comes back under
// traffic: no request fails, and later changes arrive.
func TestConsul(t *testing.T) {
	w := newWorld(t)
	server := w.consulServer()
	agent := w.consul("agent", map[string]any{"retry_join": []string{server.serf}, "retry_interval": "1s"})
	port := w.port()
	one, two := w.backend("one", 11, port), w.backend("two", 12, port)
	two.sick.Store(true)
	agent.register("web", one)
	agent.register("web", two)
	w.serve("--registries", "Consul", "--consulserverURL", server.url)
	w.sidecar("--serviceregistry", "Consul", "--id", "client.service.consul", "--domain", "service.consul")
	url := fmt.Sprintf("http://web.service.consul:%d/", port)

	w.answers(url, "one")
	two.sick.Store(false)
	w.answers(url, "one", "two")
	one.sick.Store(true)
	w.answers(url, "two")
	one.sick.Store(false)
	w.answers(url, "one", "two")
	agent.put("/v1/agent/service/maintenance/one?enable=true&reason=test", nil)
	w.answers(url, "two")
	agent.put("/v1/agent/service/maintenance/two?enable=true&reason=test", nil)
	w.unavailable(url) // an instance in maintenance gets no request, even if all are
	agent.put("/v1/agent/service/maintenance/two?enable=false", nil)
	w.answers(url, "two")
	two.sick.Store(true)
	w.unavailable(url)
	two.sick.Store(false)
	w.answers(url, "two")
	agent.put("/v1/agent/service/maintenance/one?enable=false", nil)
	w.answers(url, "one", "two")

	w.answers(fmt.Sprintf("http://web:%d/", port), "one", "two") // as a resolver of service.consul completes it
	load := w.load(url)
	server.kill()
	w.eventually("source Consul: it failed", func() string { return w.get("/ready?verbose") })
	w.answers(url, "one", "two")
	w.thousand(load) // while it is away
	server.restart()
	w.settled()
	w.answers(url, "one", "two")
	w.thousand(load)
	w.Unharmed(load)

	agent.put("/v1/agent/service/deregister/one", nil)
	w.answers(url, "two")
	three := w.backend("three", 13, port)
	agent.register("web", three)
	w.answers(url, "two", "three")
	// Of three instances two are not healthy: that is most of them, and no reason to send requests to all.
	four := w.backend("four", 14, port)
	four.sick.Store(true)
	agent.register("web", four)
	three.sick.Store(true)
	w.answers(url, "two")
}

// The time from a change until Envoy has it.
func TestConsulChangeToEnvoy(t *testing.T) {
	w := newWorld(t)
	server := w.consulServer()
	w.check(server.external("web", "one", "127.0.0.1", 1, "passing", 1))
	w.serve("--registries", "Consul", "--consulserverURL", server.url)
	w.sidecar()
	endpoint := func(field string) string {
		return w.field("outbound|1||web.service.consul", "127.0.0.1:1", field)
	}
	w.eventually("healthy", func() string { return endpoint("health_flags") })

	status := map[bool][2]string{true: {"critical", "/failed_eds_health"}, false: {"passing", "healthy"}}
	w.timed("a check of another status", 20, func(i int) (change func() error, arrived func() bool) {
		next := status[i%2 == 0]
		return func() error { return server.external("web", "one", "127.0.0.1", 1, next[0], 1) },
			func() bool { return endpoint("health_flags") == next[1] }
	})
	w.timed("another weight, which nothing names", 5, func(i int) (change func() error, arrived func() bool) {
		weight := 2 + i
		return func() error { return server.external("web", "one", "127.0.0.1", 1, "passing", weight) },
			func() bool { return endpoint("weight") == fmt.Sprint(weight) }
	})
	w.timed("another service", 10, func(i int) (change func() error, arrived func() bool) {
		name := fmt.Sprintf("new-%d", i)
		return func() error { return server.external(name, name, "127.0.0.1", 2, "passing", 1) },
			func() bool {
				return w.field("outbound|2||"+name+".service.consul", "127.0.0.1:2", "health_flags") == "healthy"
			}
	})
}

// A thousand services cost three questions a minute, and a change one.
func TestConsulThousand(t *testing.T) {
	w := newWorld(t)
	server := w.consulServer()
	const services = 1000
	began := time.Now()
	name := func(i int) string { return fmt.Sprintf("s-%d", i) }
	instance := func(service, n int, status string) error {
		id := fmt.Sprintf("%s-%d", name(service), n)
		return server.external(name(service), id, fmt.Sprintf("10.%d.%d.%d", n, service/250, service%250), 80, status, 1)
	}
	for i := range services {
		for n := range 2 {
			w.check(instance(i, n, "passing"))
		}
	}
	t.Logf("%d services of two instances were registered in %s", services, time.Since(began).Round(time.Millisecond))
	counter := w.counter(server.url)
	began = time.Now()
	w.serve("--registries", "Consul", "--consulserverURL", counter.url)
	t.Logf("discovery was ready after %s and %d questions", time.Since(began).Round(time.Millisecond), counter.count())
	w.eventually(fmt.Sprintf(`"objects": %d,`, services), func() string { return w.get("/debug/sources") })

	measure := func(what string, for_ time.Duration, changes int, change func(i int)) int64 {
		t.Helper()
		asked, discovery, consul := counter.count(), lab.CPU(w.discovery.Pid), lab.CPU(server.Pid)
		began, tick := time.Now(), time.NewTicker(for_/time.Duration(max(1, changes)))
		defer tick.Stop()
		for i := range max(1, changes) {
			if changes > 0 {
				change(i)
			}
			<-tick.C
		}
		took := time.Since(began)
		per := func(before, now time.Duration) string {
			return fmt.Sprintf("%.2f %%", 100*float64(now-before)/float64(took))
		}
		asked = counter.count() - asked
		t.Logf("%s for %s: %.2f questions/s to Consul; CPU of discovery %s, of Consul %s; RSS %d and %d MB", what, took.Round(time.Second),
			float64(asked)/took.Seconds(), per(discovery, lab.CPU(w.discovery.Pid)), per(consul, lab.CPU(server.Pid)),
			lab.RSS(w.discovery.Pid)>>20, lab.RSS(server.Pid)>>20)
		return asked
	}
	if asked := measure("idle", 20*time.Second, 0, nil); asked > 3 {
		t.Errorf("an idle Consul was asked %d times in 20 s, want each list once at most", asked)
	}
	const changes = 50
	asked := measure("five checks a second", 10*time.Second, changes, func(i int) { w.check(instance(i, 0, "critical")) })
	if limit := int64(3 * changes); asked > limit {
		t.Errorf("%d checks changed, and Consul was asked %d times, want %d at most", changes, asked, limit)
	}
	for i := range changes {
		w.eventually("unhealthy", func() string { return w.known(name(i)+".service.consul", fmt.Sprintf("10.0.%d.%d", i/250, i%250)) })
	}
	w.check(server.external(name(999), "s-999-0", "10.0.3.249", 80, "passing", 7))
	asked = measure("after a weight, which nothing names,", 15*time.Second, 0, nil)
	if asked < services/2 || asked > services+100 {
		t.Errorf("a change that nothing names cost %d questions, want one for each of %d services", asked, services)
	}
}

// A token that may read nothing does not empty the mesh, and is said; the next one is read from its file.
func TestConsulToken(t *testing.T) {
	w := newWorld(t)
	const management = "11111111-2222-3333-4444-555555555555"
	server := w.consul("server", map[string]any{
		"server": true, "bootstrap_expect": 1,
		"acl": map[string]any{"enabled": true, "default_policy": "deny", "tokens": map[string]any{"initial_management": management}},
	})
	server.token = management
	w.check(lab.Eventually(stopLimit, func() error { return server.external("web", "one", "127.0.0.1", 1, "passing", 1) }))
	token, config := filepath.Join(w.Dir, "token"), filepath.Join(w.Dir, "config")
	write := func(text string) { w.check(os.WriteFile(token, []byte(text+"\n"), 0o600)) }
	w.check(os.Mkdir(config, 0o755))
	write("")
	w.configDir = config
	w.serve("--registries", "Consul", "--consulserverURL", server.url, "--consulTokenFile", token, "--registrySyncTimeout", "100ms",
		"--optionalSources", "Consul")
	w.eventually("may not read any service", func() string { return w.get("/ready?verbose") })
	write("99999999-2222-3333-4444-555555555555")
	w.eventually("ACL not found", func() string { return w.get("/ready?verbose") })
	write(management)
	w.eventually("web.service.consul", func() string { return w.get("/debug/registryz") })
	w.check(os.Remove(token))
	w.check(server.external("other", "one", "127.0.0.1", 1, "passing", 1)) // a change ends the questions that stand, for a minute else
	w.eventually("read Consul's token", func() string { return w.get("/ready?verbose") })
	if page := w.get("/debug/registryz"); !strings.Contains(page, "web.service.consul") {
		t.Errorf("without its token discovery serves %s", page)
	}
}
