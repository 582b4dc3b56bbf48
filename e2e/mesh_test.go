package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 10 * time.Second

// mesh is the example's services, each with its sidecar, and a copy of the example's configuration to edit.
type mesh struct {
	lab.Lab
	t         *testing.T
	addresses string // prefix of the services' loopback addresses
	config    string // directory that discovery serves
	discovery *lab.Discovery
	sidecars  map[string]*lab.Sidecar
	proxies   map[string]string // host:port of each sidecar's outbound HTTP
}

// bookinfo is the example's layout: the last byte of each service's address.
var bookinfo = []struct {
	name, app, version string
	address            int
}{
	{"productpage", "productpage", "v1", 11},
	{"details", "details", "v1", 12},
	{"reviews-v1", "reviews", "v1", 13},
	{"reviews-v2", "reviews", "v2", 14},
	{"ratings", "ratings", "v1", 15},
}

// startMesh starts discovery and those services of the example that are named, all when none is. When the test ends
// everything is stopped, and it is an error if an Envoy has refused what discovery sent.
func startMesh(t *testing.T, services ...string) *mesh {
	t.Helper()
	dir := t.TempDir()
	m := &mesh{
		Lab: lab.Lab{Bin: bin, Envoy: envoy, Dir: dir}, t: t, addresses: lab.Addresses(), config: filepath.Join(dir, "config"),
		sidecars: map[string]*lab.Sidecar{}, proxies: map[string]string{},
	}
	m.copyConfig()
	var err error
	m.discovery, err = m.Discovery(m.config)
	m.check(err)
	t.Cleanup(func() {
		m.discovery.Stop(stopLimit)
		if log := m.discovery.Log(); strings.Contains(log, "response refused") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	for _, s := range bookinfo {
		if len(services) == 0 || strings.Contains(" "+strings.Join(services, " ")+" ", " "+s.name+" ") {
			m.start(s.name, s.app, s.version, s.address)
		}
	}
	for _, s := range m.sidecars {
		m.check(s.AwaitReady())
	}
	return m
}

func (m *mesh) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// start starts a service and its sidecar.
func (m *mesh) start(name, app, version string, address int) {
	m.t.Helper()
	port, err := lab.FreePort()
	m.check(err)
	m.proxies[name] = fmt.Sprintf("127.0.0.1:%d", port)
	program, err := lab.Start(lab.Spec{Name: name, Dir: m.Dir, Env: []string{"http_proxy=http://" + m.proxies[name]}, Argv: []string{
		filepath.Join(m.Bin, "bookinfo"), "-service", app, "-version", version, "-listen", m.address(address) + ":19080",
	}})
	m.check(err)
	m.t.Cleanup(func() { program.Stop(stopLimit) })
	m.check(program.AwaitHTTP(stopLimit, "http://"+m.address(address)+":19080/health"))
	sidecar, err := m.Sidecar(lab.Workload{
		Name: name, App: app, Version: version, IP: m.address(address), ProxyPort: port, Discovery: m.discovery.GRPC,
	})
	m.check(err)
	m.sidecars[name] = sidecar
	m.t.Cleanup(func() {
		m.nothingRefused(name)
		if code := sidecar.Stop(stopLimit); code != 0 {
			m.t.Errorf("agent of %s: exit status %d:\n%s", name, code, sidecar.Log())
		}
	})
}

func (m *mesh) address(last int) string { return fmt.Sprintf("%s%d", m.addresses, last) }

// copyConfig copies the example's configuration, moved to the test's addresses.
func (m *mesh) copyConfig() {
	m.check(os.MkdirAll(m.config, 0o755))
	files, err := filepath.Glob("../examples/bookinfo/config/*.yaml")
	m.check(err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		m.check(err)
		m.write(filepath.Base(file), strings.ReplaceAll(string(data), "127.0.0.", m.addresses))
	}
}

// edit replaces text in a file of the configuration, as an editor does: a new file renamed over the old one.
func (m *mesh) edit(file, old, new string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.config, file))
	m.check(err)
	if strings.Count(string(text), old) != 1 {
		m.t.Fatalf("%s: has %q %d times, want once", file, old, strings.Count(string(text), old))
	}
	m.write(file, strings.Replace(string(text), old, new, 1))
}

// weights sets how much of the traffic to reviews goes to v1 and v2.
func (m *mesh) weights(v1, v2 int) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.config, "reviews.yaml"))
	m.check(err)
	values := []int{v1, v2}
	m.write("reviews.yaml", weight.ReplaceAllStringFunc(string(text), func(string) string {
		value := values[0]
		values = values[1:]
		return fmt.Sprintf("weight: %d", value)
	}))
}

var weight = regexp.MustCompile(`weight: \d+`)

func (m *mesh) write(file, text string) {
	m.t.Helper()
	path := filepath.Join(m.config, file)
	m.check(os.WriteFile(path+"~", []byte(text), 0o644))
	m.check(os.Rename(path+"~", path))
}

// stat returns the sum of one sidecar's counters or gauges whose names match.
func (m *mesh) stat(sidecar, filter string) int64 {
	m.t.Helper()
	stats, err := lab.Stats(m.sidecars[sidecar].Admin, filter)
	m.check(err)
	var sum int64
	for _, value := range stats {
		sum += value
	}
	return sum
}

// nothingRefused reports every response that a sidecar's Envoy would not take. One that the test has stopped is not
// asked.
func (m *mesh) nothingRefused(name string) {
	select {
	case <-m.sidecars[name].Done():
		return
	default:
	}
	stats, err := lab.Stats(m.sidecars[name].Admin, `update_rejected$`)
	if err != nil {
		m.t.Errorf("%s: %v", name, err)
	}
	for stat, value := range stats {
		if value != 0 {
			m.t.Errorf("%s: %s = %d, want 0", name, stat, value)
		}
	}
}

// get sends one request through a sidecar's outbound proxy, as a program with http_proxy does.
func (m *mesh) get(from, url string, header ...string) string {
	m.t.Helper()
	body, err := lab.GetThrough(m.proxies[from], url, header...)
	m.check(err)
	return body
}

// unharmed ends a load, and reports every request of it that failed.
func unharmed(t *testing.T, load *lab.Load) {
	t.Helper()
	requests, failures := load.Stop()
	t.Logf("%d requests, %d failed", requests, len(failures))
	if n := len(failures); n > 0 {
		t.Errorf("%d requests failed, want none; the first: %q", n, failures[:min(n, 3)])
	}
}
