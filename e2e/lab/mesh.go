package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// StopLimit is how long a process may take to stop, and how long a test waits for a wanted answer.
const StopLimit = 30 * time.Second

// Mesh is the example's services, each with its sidecar, and a copy of the example's configuration to edit.
type Mesh struct {
	Lab
	T         *testing.T
	Addresses string     // prefix of the services' loopback addresses
	Config    string     // directory that discovery serves
	Discovery *Discovery // shadows the function of the lab that starts it
	Sidecars  map[string]*Sidecar
	Proxies   map[string]string // host:port of each sidecar's outbound HTTP
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

// StartMesh starts discovery and those services of the example that are named, all when none is. When the test ends
// everything is stopped, and it is an error if an Envoy has rejected a response of discovery.
func StartMesh(t *testing.T, services ...string) *Mesh {
	t.Helper()
	dir := t.TempDir()
	m := &Mesh{
		Lab: New(dir), T: t, Addresses: Addresses(), Config: filepath.Join(dir, "config"),
		Sidecars: map[string]*Sidecar{}, Proxies: map[string]string{},
	}
	m.copyConfig()
	var err error
	m.Discovery, err = m.Lab.Discovery(m.Config)
	m.Check(err)
	t.Cleanup(func() {
		m.Discovery.Stop(StopLimit)
		if log := m.Discovery.Log(); strings.Contains(log, "response refused") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	for _, s := range bookinfo {
		if len(services) == 0 || strings.Contains(" "+strings.Join(services, " ")+" ", " "+s.name+" ") {
			m.Start(s.name, s.app, s.version, s.address)
		}
	}
	for _, s := range m.Sidecars {
		m.Check(s.AwaitReady())
	}
	return m
}

// Check ends the test with an error, if there is one.
func (m *Mesh) Check(err error) {
	m.T.Helper()
	if err != nil {
		m.T.Fatal(err)
	}
}

// Start starts a service and its sidecar; address is the last byte of its own, flags are further ones of the agent.
func (m *Mesh) Start(name, app, version string, address int, flags ...string) {
	m.T.Helper()
	port, err := FreePort()
	m.Check(err)
	m.Proxies[name] = fmt.Sprintf("127.0.0.1:%d", port)
	program, err := Start(Spec{Name: name, Dir: m.Dir, Env: []string{"http_proxy=http://" + m.Proxies[name]}, Argv: []string{
		filepath.Join(m.Bin, "bookinfo"), "-service", app, "-version", version, "-listen", m.Address(address) + ":19080",
	}})
	m.Check(err)
	m.T.Cleanup(func() { program.Stop(StopLimit) })
	m.Check(program.AwaitHTTP(StopLimit, "http://"+m.Address(address)+":19080/health"))
	sidecar, err := m.Sidecar(Workload{
		Name: name, App: app, Version: version, IP: m.Address(address), ProxyPort: port, Discovery: m.Discovery.GRPC, Flags: flags,
	})
	m.Check(err)
	m.Sidecars[name] = sidecar
	m.T.Cleanup(func() {
		m.nothingRefused(name)
		if code := sidecar.Stop(StopLimit); code != 0 {
			m.T.Errorf("agent of %s: exit status %d:\n%s", name, code, sidecar.Log())
		}
	})
}

// Address is the loopback address of a service.
func (m *Mesh) Address(last int) string { return fmt.Sprintf("%s%d", m.Addresses, last) }

// Stat returns the sum of one sidecar's counters or gauges whose names match.
func (m *Mesh) Stat(sidecar, filter string) int64 {
	m.T.Helper()
	stats, err := Stats(m.Sidecars[sidecar].Admin, filter)
	m.Check(err)
	var sum int64
	for _, value := range stats {
		sum += value
	}
	return sum
}

// nothingRefused reports every response that a sidecar's Envoy has rejected. It does not query a sidecar that the test
// has stopped.
func (m *Mesh) nothingRefused(name string) {
	select {
	case <-m.Sidecars[name].Done():
		return
	default:
	}
	stats, err := Stats(m.Sidecars[name].Admin, `update_rejected$`)
	if err != nil {
		m.T.Errorf("%s: %v", name, err)
	}
	for stat, value := range stats {
		if value != 0 {
			m.T.Errorf("%s: %s = %d, want 0", name, stat, value)
		}
	}
}

// Get sends one request through a sidecar's outbound proxy, as a program with http_proxy does.
func (m *Mesh) Get(from, url string, header ...string) string {
	m.T.Helper()
	body, err := GetThrough(m.Proxies[from], url, header...)
	m.Check(err)
	return body
}

// copyConfig copies the example's configuration, moved to the test's addresses.
func (m *Mesh) copyConfig() {
	m.Check(os.MkdirAll(m.Config, 0o755))
	files, err := filepath.Glob(Path("examples/bookinfo/config/*.yaml"))
	m.Check(err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		m.Check(err)
		m.Write(filepath.Base(file), strings.ReplaceAll(string(data), "127.0.0.", m.Addresses))
	}
}

// Edit replaces text in a file of the configuration, as an editor does: a new file renamed over the old one.
func (m *Mesh) Edit(file, old, new string) {
	m.T.Helper()
	text, err := os.ReadFile(filepath.Join(m.Config, file))
	m.Check(err)
	if strings.Count(string(text), old) != 1 {
		m.T.Fatalf("%s: has %q %d times, want once", file, old, strings.Count(string(text), old))
	}
	m.Write(file, strings.Replace(string(text), old, new, 1))
}

// Weights sets how much of the traffic to reviews goes to v1 and v2.
func (m *Mesh) Weights(v1, v2 int) {
	m.T.Helper()
	text, err := os.ReadFile(filepath.Join(m.Config, "reviews.yaml"))
	m.Check(err)
	values := []int{v1, v2}
	m.Write("reviews.yaml", weight.ReplaceAllStringFunc(string(text), func(string) string {
		value := values[0]
		values = values[1:]
		return fmt.Sprintf("weight: %d", value)
	}))
}

var weight = regexp.MustCompile(`weight: \d+`)

// Write replaces a file of the configuration, as an editor does: a new file renamed over the old one.
func (m *Mesh) Write(file, text string) {
	m.T.Helper()
	path := filepath.Join(m.Config, file)
	m.Check(os.WriteFile(path+"~", []byte(text), 0o644))
	m.Check(os.Rename(path+"~", path))
}
