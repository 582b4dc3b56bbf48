//go:build registries

package registries

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// broker is a NATS server with a user and a password.
type broker struct {
	*part
	url, credentials string
}

func (w *world) broker() *broker {
	w.T.Helper()
	port, monitoring := w.port(), w.port()
	b := &broker{url: "nats://" + local(port), credentials: filepath.Join(w.Dir, "nats-credentials")}
	w.check(os.WriteFile(b.credentials, []byte("router:secret\n"), 0o600))
	b.part = w.part(lab.Spec{Name: "nats", Argv: []string{
		needs(w.T, "nats-server"), "-a", "127.0.0.1", "-p", fmt.Sprint(port), "-m", fmt.Sprint(monitoring), "--user", "router", "--pass", "secret",
	}}, func() error {
		_, err := lab.Get("http://" + local(monitoring) + "/healthz")
		return err
	})
	return b
}

func (b *broker) flags() []string {
	return []string{"--natsURL", b.url, "--natsCredentialsFile", b.credentials, "--natsRegisterInterval", "1s", "--natsPruneThreshold", "15s"}
}

// cells announce routes as those of a Cloud Foundry do: each every second, and all when a router starts. They come back to a
// broker that was away.
type cells struct {
	nc     *nats.Conn
	mu     sync.Mutex
	routes map[string][]byte // by name
}

func (w *world) cells(b *broker) *cells {
	w.T.Helper()
	return w.cellsAt(b.url, nats.UserInfo("router", "secret"))
}

func (w *world) cellsAt(url string, options ...nats.Option) *cells {
	w.T.Helper()
	nc, err := nats.Connect(url, append(options, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))...)
	w.check(err)
	c := &cells{nc: nc, routes: map[string][]byte{}}
	_, err = nc.Subscribe("router.start", func(*nats.Msg) { c.announce() })
	w.check(err)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
				c.announce()
			}
		}
	}()
	w.T.Cleanup(func() { close(stop); <-done; nc.Close() })
	return c
}

func (c *cells) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.routes {
		_ = c.nc.Publish("router.register", body) // a broker that is away gets it later, or the next
	}
}

// body is a registration of a route.
func body(uri, id, ip string, port int, further map[string]any) []byte {
	m := map[string]any{"uris": []string{uri}, "host": ip, "port": port, "private_instance_id": id, "availability_zone": "z1"}
	for key, value := range further {
		m[key] = value
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // of these types there is none
	}
	return data
}

// register announces an instance, from now on again and again.
func (c *cells) register(name string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routes[name] = data
	return c.nc.Publish("router.register", data)
}

// forget announces an instance no more.
func (c *cells) forget(name string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	data := c.routes[name]
	delete(c.routes, name)
	return data
}

func (c *cells) unregister(name string) error {
	return c.nc.Publish("router.unregister", c.forget(name))
}

// Of two instances one is withdrawn, another is not announced any more and is pruned; the broker is killed and comes back under traffic:
// no request fails, what is not announced meanwhile stays, and later changes arrive.
func TestCloudFoundry(t *testing.T) {
	w := newWorld(t)
	b := w.broker()
	c := w.cells(b)
	port := w.port()
	one, two := w.backend("one", 11, port), w.backend("two", 12, port)
	route := func(b *backend) { w.check(c.register(b.name, body("shop.cf.test", b.name, b.ip, b.port, nil))) }
	route(one)
	route(two)
	w.serve(append([]string{"--registries", "CloudFoundry"}, b.flags()...)...)
	w.sidecar("--serviceregistry", "CloudFoundry")
	const url = "http://shop.cf.test/"

	w.answers(url, "one", "two")
	w.check(c.unregister("two"))
	w.answers(url, "one")
	route(two)
	w.answers(url, "one", "two")
	c.forget("two") // it dies without a word
	w.answers(url, "one")
	route(two)
	w.answers(url, "one", "two")

	load := w.load(url)
	b.kill()
	w.eventually("source CloudFoundry: it failed at", func() string { return w.get("/ready?verbose") })
	w.answers(url, "one", "two")
	w.thousand(load) // while it is away
	b.restart()
	w.settled()
	w.answers(url, "one", "two")
	w.thousand(load)
	w.Unharmed(load)

	w.check(c.unregister("one"))
	w.answers(url, "two")
	w.check(c.nc.Publish("router.register", []byte("nonsense")))
	w.check(c.register("bad", body("bad.cf.test/path", "bad", "10.0.0.1", 1, nil)))
	w.eventually("bad.cf.test/path", func() string { return w.get("/ready?verbose") })
	w.eventually("nonsense", func() string { return w.get("/ready?verbose") })
	w.answers(url, "two")
}

// The time from a message until Envoy has it.
func TestCloudFoundryChangeToEnvoy(t *testing.T) {
	w := newWorld(t)
	b := w.broker()
	c := w.cells(b)
	w.check(c.register("one", body("shop.cf.test", "one", "127.0.0.1", 1, nil)))
	w.serve(append([]string{"--registries", "CloudFoundry"}, b.flags()...)...)
	w.sidecar()
	has := func(address string) bool {
		return w.field("outbound|80||shop.cf.test", address, "health_flags") == "healthy"
	}
	w.timed("another instance, and its end", 20, func(i int) (change func() error, arrived func() bool) {
		if i%2 == 0 {
			return func() error { return c.register("two", body("shop.cf.test", "two", "127.0.0.1", 2, nil)) }, func() bool { return has("127.0.0.1:2") }
		}
		return func() error { return c.unregister("two") }, func() bool { return !has("127.0.0.1:2") }
	})
	w.timed("another route", 10, func(i int) (change func() error, arrived func() bool) {
		name := fmt.Sprintf("new-%d", i)
		return func() error { return c.register(name, body(name+".cf.test", name, "127.0.0.1", 3, nil)) },
			func() bool {
				return w.field("outbound|80||"+name+".cf.test", "127.0.0.1:3", "health_flags") == "healthy"
			}
	})
}

// Several registries at once: one that is away, and one that never was there, keep the others from nothing. Each is named in the log.
func TestSeveralAtOnce(t *testing.T) {
	w := newWorld(t)
	b := w.broker()
	c := w.cells(b)
	one := w.backend("one", 11, w.port())
	w.check(c.register("one", body("shop.cf.test", "one", one.ip, one.port, nil)))
	nobody := "http://" + local(w.port())
	w.serve(append([]string{
		"--registries", "CloudFoundry,Mock,Consul,Eureka", "--consulserverURL", nobody, "--eurekaserverURL", nobody + "/eureka", "--registrySyncTimeout", "2s",
		"--optionalSources", "Consul,Eureka",
	}, b.flags()...)...)
	w.sidecar()
	w.answers("http://shop.cf.test/", "one")
	ready := func() string { return w.get("/ready?verbose") }
	for _, name := range []string{"Consul", "Eureka"} {
		w.eventually("source "+name+":", ready)
	}
	page := ready()
	for _, name := range []string{"CloudFoundry", "Mock"} {
		if strings.Contains(page, "source "+name+":") {
			t.Errorf("%s is told of in %q", name, page)
		}
	}
	for _, name := range []string{"CloudFoundry", "Mock", "Consul", "Eureka"} {
		w.eventually(`source="`+name+`"`, w.metrics)
	}
	b.kill()
	w.answers("http://shop.cf.test/", "one")
	w.eventually("source CloudFoundry: it failed at", ready)
	w.eventually("hello.default.svc.cluster.local", func() string { return w.get("/debug/registryz") })
}

// line is a way to a broker that can be cut.
type line struct {
	address, to string
	mu          sync.Mutex
	cut         bool
	ends        map[net.Conn]bool
}

func (w *world) line(to string) *line {
	w.T.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.check(err)
	out := &line{address: l.Addr().String(), to: to, ends: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { out.carry(near) })
		}
	})
	w.T.Cleanup(func() { _ = l.Close(); out.set(true); running.Wait() })
	return out
}

// set cuts the line, or mends it.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; cut {
		for end := range l.ends {
			_ = end.Close()
		}
	}
}

func (l *line) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	cut := l.cut
	l.ends[near], l.ends[far] = true, true
	l.mu.Unlock()
	if cut {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
	l.mu.Lock()
	delete(l.ends, near)
	delete(l.ends, far)
	l.mu.Unlock()
}

// The source keeps its contract with the real broker.
func TestCloudFoundryContract(t *testing.T) {
	w := newWorld(t)
	b := w.broker()
	c := w.cells(b)
	line := w.line(strings.TrimPrefix(b.url, "nats://"))
	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry {
		c.mu.Lock()
		clear(c.routes)
		c.mu.Unlock()
		good := map[string][]byte{}
		put := func(name, address string) {
			data := body(name+".cf.test", name, address, 8080, nil)
			w.check(c.register(name, data))
			if was := good[name]; was != nil && address != "none" && string(was) != string(data) {
				w.check(c.nc.Publish("router.unregister", was))
			}
			if address != "none" {
				good[name] = data
			}
		}
		return sourcetest.Registry{
			Source: cloudfoundry.New(cloudfoundry.Broker{URLs: []string{"nats://" + line.address}, Credentials: b.credentials}, "tested", netip.Addr{}, model.Grant{Domains: []string{"*"}}, 500*time.Millisecond, time.Hour),
			Host:   func(name string) string { return name + ".cf.test" },
			Put:    put,
			Delete: func(name string) { w.check(c.unregister(name)) },
			Spoil:  func(name string) { put(name, "none") },
			Break:  func() { line.set(true) },
			Mend:   func() { line.set(false) },
			Touch:  c.announce,
		}
	})
}
