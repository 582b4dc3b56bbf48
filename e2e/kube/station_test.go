//go:build kube

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// crowd is how many simulated proxies a station has, beside the real one.
const crowd = 20

// station is a discovery that follows a cluster in a way of its own, with a real Envoy that sends requests.
type station struct {
	name      string
	discovery *lab.Discovery
	client    *lab.Sidecar
	proxy     string // host:port of its outbound HTTP
	loads     []*lab.Load
	cut, mend func() // take away what it follows, and give it back

	full    counts // what the first configuration of all its proxies took
	unready []error
	warned  int           // lines of its log before it was cut off
	took    time.Duration // from its return until all had arrived
}

// startStation starts discovery with a kubeconfig, the real proxy at an address of its own, and the others.
func startStation(t *testing.T, name, kubeconfig, ip string, cut, mend func()) *station {
	t.Helper()
	s := &station{name: name, cut: cut, mend: mend}
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	var err error
	s.discovery, err = l.Discovery(files, "--registries", "Kubernetes", "--kubernetesConfig", "--kubeconfig", kubeconfig, "--kubeContext", "test")
	check(t, err)
	t.Cleanup(func() {
		s.discovery.Stop(stopLimit)
		if t.Failed() {
			t.Logf("discovery of %s:\n%s", name, tail(s.discovery.Log()))
		}
	})
	port, err := lab.FreePort()
	check(t, err)
	s.proxy = fmt.Sprintf("127.0.0.1:%d", port)
	s.client, err = l.Sidecar(lab.Workload{
		Name: "client", App: "client", IP: ip, ProxyPort: port, Discovery: s.discovery.GRPC,
		Flags: []string{"--serviceregistry", "Kubernetes"}, Env: []string{"ISTIO_META_CLUSTER_ID=Kubernetes"},
	})
	check(t, err)
	t.Cleanup(func() { s.client.Stop(stopLimit) })
	check(t, s.client.AwaitReady())
	f := startFleet(t, l.Bin, s.discovery.GRPC, crowd, true)
	if got := f.ask("await", routes, "120s").Proxies; got != crowd {
		t.Fatalf("%s: %d of %d proxies are configured", name, got, crowd)
	}
	return s
}

// send begins to send requests for these services.
func (s *station) send(services ...string) {
	for _, service := range services {
		s.loads = append(s.loads, lab.StartSlowLoad(s.proxy, "http://"+service+".default.svc.cluster.local/", 1, 1, 20*time.Millisecond))
	}
}

// counts are what a discovery has sent: meshes, and responses and bytes by type.
type counts struct {
	generation       int
	responses, bytes map[string]int
}

func (s *station) counts() (counts, error) {
	page, err := lab.Get("http://" + s.discovery.Monitoring + "/metrics")
	out := counts{responses: map[string]int{}, bytes: map[string]int{}}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		_, kind, _ := strings.Cut(name, `type="`)
		kind, _, _ = strings.Cut(kind, `"`)
		switch {
		case name == "pilot_xds_generation":
			out.generation = int(n)
		case strings.HasPrefix(name, "pilot_xds_sent_bytes_total{"):
			out.bytes[kind] = int(n)
		case strings.HasPrefix(name, "pilot_xds_pushes_total{") && strings.Contains(name, `"sent"`):
			out.responses[kind] = int(n)
		}
	}
	return out, err
}

// since is the difference to earlier counts.
func (c counts) since(earlier counts) counts {
	out := counts{c.generation - earlier.generation, map[string]int{}, map[string]int{}}
	for kind, n := range c.responses {
		out.responses[kind] = n - earlier.responses[kind]
	}
	for kind, n := range c.bytes {
		out.bytes[kind] = n - earlier.bytes[kind]
	}
	return out
}

func total(of map[string]int) (sum int) {
	for _, n := range of {
		sum += n
	}
	return sum
}

// settled waits until discovery has sent nothing for a while, and returns what it has sent.
func (s *station) settled() (last counts, err error) {
	var since time.Time
	err = lab.Eventually(time.Minute, func() error {
		now, err := s.counts()
		if err != nil {
			return err
		}
		if since.IsZero() || now.generation != last.generation || total(now.responses) != total(last.responses) {
			last, since = now, time.Now()
		}
		if calm := time.Since(since); calm < 3*time.Second {
			return fmt.Errorf("%s sent something %s ago", s.name, calm)
		}
		return nil
	})
	return last, err
}

// observe asks whether discovery is ready, until stop is closed.
func (s *station) observe(stop <-chan struct{}) {
	for {
		if _, err := lab.Get("http://" + s.discovery.HTTP + "/ready"); err != nil {
			s.unready = append(s.unready, err)
		}
		select {
		case <-stop:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// says waits until /ready?verbose has a text, or no longer has it.
// A frozen server has 45 s until its connections count as dead, and 10 s for each handshake then.
func (s *station) says(text string, want bool) error {
	return lab.Eventually(2*time.Minute, func() error {
		page, err := lab.Get("http://" + s.discovery.HTTP + "/ready?verbose")
		if err == nil && strings.Contains(page, text) != want {
			err = fmt.Errorf("%s: /ready?verbose is %s; want that it has %q: %t", s.name, page, text, want)
		}
		return err
	})
}

// warnings are the lines of the log that an operator is to see. The proxies of the crowd have no workload, which a note says of
// each of them ten seconds after it has connected.
func (s *station) warnings() (lines []string) {
	for line := range strings.Lines(s.discovery.Log()) {
		if (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")) && !strings.Contains(line, "code=no-workload") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// endpoints are the addresses that Envoy has of the services whose names begin so.
func (s *station) endpoints(prefix string) (out []string, err error) {
	page, err := lab.Get("http://" + s.client.Admin + "/clusters")
	for line := range strings.Lines(page) {
		name, rest, _ := strings.Cut(line, "::")
		address, field, _ := strings.Cut(rest, "::")
		if strings.HasPrefix(name, "outbound|80||"+prefix) && strings.HasPrefix(field, "health_flags") {
			out = append(out, address)
		}
	}
	slices.Sort(out)
	return out, err
}

// has waits until Envoy has exactly these endpoints of the services whose names begin so.
func (s *station) has(prefix string, want ...string) error {
	slices.Sort(want)
	return lab.Eventually(time.Minute, func() error {
		got, err := s.endpoints(prefix)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%s: Envoy has the endpoints %s of %s, want %s", s.name, got[:min(20, len(got))], prefix, want[:min(20, len(want))])
		}
		return err
	})
}
