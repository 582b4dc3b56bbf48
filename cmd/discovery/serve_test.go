package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// TestServe starts the whole server on a directory, waits for it to be ready, and stops it as a signal does.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	object := "{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: a}, spec: {egress: [{hosts: [./*]}]}}"
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(object), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusOK)
	s.stop(t)
}

// TestServePacesTheCollector: a large heap may grow by less than Go's own rule allows, and the collector is left alone where GOGC
// says how.
func TestServePacesTheCollector(t *testing.T) {
	gogc := func() uint64 {
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(now)
		return now[0].Value.Uint64()
	}
	before := gogc()
	large := make([]byte, 256<<20)
	for _, set := range []string{"", "50"} {
		t.Setenv("GOGC", set)
		s := startServe(t, "--configDir", t.TempDir())
		s.await(t, http.StatusOK)
		if set == "" {
			if err := lab.Eventually(20*time.Second, func() error {
				runtime.GC()
				if got := gogc(); got >= before {
					return fmt.Errorf("GOGC is %d with a large heap, was %d", got, before)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		} else if runtime.GC(); gogc() != before {
			t.Errorf("with GOGC=%q in the environment it is %d, was %d", set, gogc(), before)
		}
		if s.stop(t); gogc() != before {
			t.Errorf("GOGC is %d after the stop, was %d", gogc(), before)
		}
	}
	runtime.KeepAlive(large)
}

// TestServeSaysWhatIsRefused: the good objects of a broken file are served at a start, and the others are named.
func TestServeSaysWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	object := "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: %s}, spec: {host: %s}}\n"
	text := fmt.Sprintf(object, "a", "a") + "---\n" + fmt.Sprintf(object, "b", "b..b")
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusOK)
	for path, want := range map[string]string{
		"/ready":         "ready\n",
		"/ready?verbose": "ready\nconfiguration: DestinationRule/default/b (" + dir + "/a.yaml:3): refused, not served\n",
		"/debug/configz": `"name": "a"`,
		"/debug/config":  "DestinationRule/default/b (" + dir + "/a.yaml:3)",
	} {
		response, err := http.Get("http://" + s.web + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if got := string(body); err != nil || !strings.Contains(got, want) || strings.HasPrefix(path, "/ready") && got != want {
			t.Errorf("%s is %q, %v, want %q", path, got, err, want)
		}
	}
	s.stop(t)
}

// TestServeIsNotReadyWithoutItsDirectory: for proxies half a mesh is worse than no mesh.
func TestServeIsNotReadyWithoutItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusServiceUnavailable)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.await(t, http.StatusOK)
	s.stop(t)
}

// TestServeIsNotReadyWithoutSettings: the defaults would open what MeshConfig closes. The reason is named, and once the
// file is good, discovery is ready.
func TestServeIsNotReadyWithoutSettings(t *testing.T) {
	mesh := filepath.Join(t.TempDir(), "mesh.yaml")
	s := startServe(t, "--configDir", t.TempDir(), "--meshConfig", mesh, "--registrySyncTimeout", "300ms")
	for text, reason := range map[string]string{
		"": "no such file", "outboundTrafficPolcy: {mode: REGISTRY_ONLY}": `unknown field "outboundTrafficPolcy"`, "# none": "is empty, want a MeshConfig",
	} {
		if text != "" {
			write(t, mesh, text)
		}
		s.awaitText(t, "/ready?verbose", mesh)
		s.awaitText(t, "/ready?verbose", reason)
		s.awaitText(t, "/ready?verbose", "source meshConfig: it has not synced within its deadline, and discovery is not ready without it")
		s.awaitText(t, "/ready", "not ready: the sources have not synced yet: meshConfig (/ready?verbose on its host has the reasons)")
		s.awaitText(t, "/debug/sources", `"awaited": true`)
		if text == "" {
			continue
		}
		if err := os.Remove(mesh); err != nil {
			t.Fatal(err)
		}
	}
	write(t, mesh, "{}")
	s.await(t, http.StatusOK)
	s.stop(t)
}

// TestServeIsNotReadyWithABrokenFile: nobody knows which objects a file had that cannot be read since the start. The file
// and its fault are named; the same fault in a file that was read once changes nothing.
func TestServeIsNotReadyWithABrokenFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, "kind: [")
	s := startServe(t, "--configDir", dir, "--registrySyncTimeout", "300ms")
	s.awaitText(t, "/ready", "not ready: the sources have not synced yet: config cannot be read in part")
	s.awaitText(t, "/ready?verbose", "source config: a part cannot be read, what it had of it is not removed: file "+file+": line 1: ")
	s.awaitText(t, "/ready?verbose", "configuration: "+file+": cannot be read, and was not since the start")
	write(t, file, "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, spec: {host: a}}")
	s.await(t, http.StatusOK)
	write(t, file, "kind: [")
	s.awaitText(t, "/ready?verbose", file+": cannot be read, what it held is served")
	if page := s.get(t, s.web, "/debug/configz"); !strings.Contains(page, `"name": "a"`) {
		t.Errorf("what the file held is not served: %s", page)
	}
	s.await(t, http.StatusOK)
	s.stop(t)
}

// TestServeRegistries: a registry is served without a directory, and beside one. Each has its state and metrics.
func TestServeRegistries(t *testing.T) {
	for _, args := range [][]string{{"--registries", "Mock"}, {"--registries", "Mock", "--configDir", t.TempDir()}} {
		s := startServe(t, args...)
		s.await(t, http.StatusOK)
		for path, want := range map[string]string{
			"/debug/sources":   `"name": "Mock",\n    "state": "synced",\n    "objects": 2,`,
			"/debug/registryz": `"host": "world.default.svc.cluster.local"`,
		} {
			if got := s.get(t, s.web, path); !strings.Contains(got, strings.ReplaceAll(want, `\n`, "\n")) {
				t.Errorf("%v: %s is %s, want %s in it", args, path, got, want)
			}
		}
		if got, want := s.get(t, s.stats, "/metrics"), `pilotlight_source_state{source="Mock",state="synced"} 1`; !strings.Contains(got, want) {
			t.Errorf("%v: /metrics has no line %s", args, want)
		}
		s.stop(t)
	}
}

func TestServeNamesBusyPorts(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	var out strings.Builder
	address := busy.Addr().String()
	code := run(t.Context(), []string{"serve", "--configDir", ".", "--grpcAddr", address, "--httpAddr", address, "--monitoringAddr", ""}, nil, &out, &out)
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"--grpcAddr: listen tcp " + address, "--httpAddr: listen tcp " + address, "address already in use"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output %q, want it to say %q", &out, want)
		}
	}
}

// serving is a running server, with the addresses in its log.
type serving struct {
	web    string // its HTTP address
	stats  string // address of its metrics
	grpc   string // of ADS
	cancel context.CancelFunc
	exit   <-chan int
}

func startServe(t *testing.T, args ...string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, stderr := io.Pipe()
	args = append([]string{"serve", "--grpcAddr", "127.0.0.1:0", "--httpAddr", "127.0.0.1:0", "--monitoringAddr", "127.0.0.1:0", "--logFormat", "json"}, args...)
	exit := make(chan int, 1)
	go func() {
		defer stderr.Close()
		exit <- run(ctx, args, nil, io.Discard, stderr)
	}()
	web, drained := make(chan [3]string, 1), make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Msg, HTTPAddr, MonitoringAddr, GRPCAddr string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				web <- [3]string{line.HTTPAddr, line.MonitoringAddr, line.GRPCAddr}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-drained })
	select {
	case address := <-web:
		return serving{address[0], address[1], address[2], cancel, exit}
	case code := <-exit:
		t.Fatalf("it ended with code %d", code)
	case <-time.After(30 * time.Second):
		t.Fatal("it does not say where it serves")
	}
	return serving{}
}

func (s serving) get(t *testing.T, address, path string) string {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// awaitText requests a page until it has this text.
func (s serving) awaitText(t *testing.T, path, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		got := s.get(t, s.web, path)
		if strings.Contains(got, want) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s is %q, want %q in it", path, got, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// await requests readiness until it is as wanted.
func (s serving) await(t *testing.T, want int) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for got := 0; got != want; {
		response, err := http.Get("http://" + s.web + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		got = response.StatusCode
		select {
		case <-deadline:
			t.Fatalf("/ready is %d, want %d", got, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s serving) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	select {
	case code := <-s.exit:
		if code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not stop")
	}
}

// What the settings do not ask for costs no goroutine: no registry, no client of Kubernetes, no other control plane, no traces.
func TestWhatIsNotAskedForDoesNotRun(t *testing.T) {
	s := startServe(t, "--configDir", t.TempDir())
	s.await(t, http.StatusOK)
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, unwanted := range []string{
		"discovery/registry/", "discovery/kube", "discovery/webhook", "discovery/inject", "discovery/config/kubernetes", "discovery/config/mcp", "discovery/secret/",
		"nats-io", "k8s.io/client-go", "opentelemetry",
	} {
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, unwanted) {
				t.Errorf("a goroutine of %s:\n%s", unwanted, stack)
			}
		}
	}
	if !strings.Contains(string(stacks), "discovery/config/file") {
		t.Errorf("no goroutine of the store, which is asked for:\n%s", stacks)
	}
	s.stop(t)
}

// A directory that was written for a cluster is served without a cluster: Kubernetes' objects beside Istio's.
func TestServeManifests(t *testing.T) {
	dir := t.TempDir()
	const service = "{apiVersion: v1, kind: Service, metadata: {name: reviews}, spec: {selector: {app: reviews}, ports: [{port: 9080, name: http}]}}\n"
	write(t, filepath.Join(dir, "a.yaml"), service+`---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: one}, spec: {address: 10.0.0.7, labels: {app: reviews}}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: reviews}, spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}}
`)
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusOK)
	s.awaitPage(t, "/debug/registryz", func(page string) bool {
		return strings.Contains(page, "reviews.default.svc.cluster.local") && strings.Contains(page, `"endpoints": 1`)
	})
	s.awaitPage(t, "/debug/notes", func(page string) bool { return !strings.Contains(page, "unknown-host") })
	write(t, filepath.Join(dir, "a.yaml"), strings.Replace(service, "9080", "nine", 1))
	s.awaitPage(t, "/ready?verbose", func(page string) bool { return strings.Contains(page, dir+"/a.yaml:1: cannot be read") })
	if page := s.get(t, s.web, "/debug/registryz"); !strings.Contains(page, "reviews.default.svc.cluster.local") {
		t.Errorf("the last good form of the service is gone: %s", page)
	}
	write(t, filepath.Join(dir, "a.yaml"), strings.ReplaceAll(service, "reviews", "ratings"))
	s.awaitPage(t, "/debug/registryz", func(page string) bool { return !strings.Contains(page, "reviews.default.svc.cluster.local") })
	s.stop(t)
}
