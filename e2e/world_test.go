package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// world is discovery with a directory of configuration, backends inside the test, and Envoys that discovery configures
// without an agent: what is shown is the translation.
type world struct {
	lab.Lab
	t         *testing.T
	addresses string
	next      int
	config    string
	discovery *lab.Discovery
	api       string // of ADS; GRPC where it is ""
}

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{Lab: lab.Lab{Bin: bin, Envoy: envoy, Dir: dir}, t: t, addresses: lab.Addresses(), config: filepath.Join(dir, "config")}
	w.check(os.MkdirAll(w.config, 0o755))
	var err error
	w.discovery, err = w.Discovery(w.config, flags...)
	w.check(err)
	t.Cleanup(func() {
		w.discovery.Stop(stopLimit)
		if log := w.discovery.Log(); strings.Contains(log, "response refused") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// address returns a loopback address that nobody else has.
func (w *world) address() string {
	w.next++
	return fmt.Sprintf("%s%d", w.addresses, w.next)
}

// apply writes objects, given as kind and name and then as the spec's YAML, each into a file of its own.
func (w *world) apply(objects ...string) {
	w.t.Helper()
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		w.write(fileOf(kind, name), objects[i:i+2])
	}
}

// applyAtOnce writes objects into one file, so that discovery takes them as one change.
func (w *world) applyAtOnce(file string, objects ...string) {
	w.t.Helper()
	w.write(file, objects)
}

func (w *world) write(file string, objects []string) {
	w.t.Helper()
	var text strings.Builder
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		spec := strings.ReplaceAll(strings.Trim(objects[i+1], "\n\t "), "\n\t\t", "\n")
		fmt.Fprintf(&text, "---\napiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  %s\n",
			kind, name, strings.ReplaceAll(strings.ReplaceAll(spec, "\t", ""), "\n", "\n  "))
	}
	w.sound(text.String())
	path := filepath.Join(w.config, file)
	w.check(os.WriteFile(path+"~", []byte(text.String()), 0o644))
	w.check(os.Rename(path+"~", path))
}

func fileOf(kind, name string) string { return strings.ToLower(kind) + "-" + name + ".yaml" }

// reference is made once: it reads a megabyte of definitions.
var reference = sync.OnceValues(crd.New)

// sound wants what a test serves to be what discovery and an API server take: a refused file shows nothing.
func (w *world) sound(text string) {
	w.t.Helper()
	if _, problems := config.Decode("", []byte(text)); config.HasErrors(problems) {
		w.t.Fatalf("discovery would not take this: %v\n%s", problems, text)
	}
	server, err := reference()
	w.check(err)
	documents, err := crd.Documents([]byte(text))
	w.check(err)
	for _, document := range documents {
		if faults, known := server.Judge(document); !known || len(faults) > 0 {
			w.t.Fatalf("an API server would not take this: %q\n%s", faults, document)
		}
	}
}

func (w *world) remove(kind, name string) {
	w.t.Helper()
	w.check(os.Remove(filepath.Join(w.config, fileOf(kind, name))))
}

// backend is a server of HTTP that says what it was asked.
type backend struct {
	name, ip string
	port     int
	requests atomic.Int64
	status   atomic.Int64 // what it answers
	delay    atomic.Int64 // before it answers
	server   *http.Server
}

// echo is what a backend answers.
type echo struct {
	Backend, Host, Path string
	Header              http.Header
}

func (w *world) backend(name string) *backend {
	w.t.Helper()
	b := &backend{name: name, ip: w.address()}
	b.status.Store(200)
	l, err := net.Listen("tcp", b.ip+":0")
	w.check(err)
	b.port = l.Addr().(*net.TCPAddr).Port
	b.server = &http.Server{Handler: b}
	go b.server.Serve(l)
	w.t.Cleanup(func() { b.server.Close() })
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.requests.Add(1)
	if d := time.Duration(b.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("x-backend", b.name)
	w.WriteHeader(int(b.status.Load()))
	json.NewEncoder(w).Encode(echo{b.name, r.Host, r.URL.RequestURI(), r.Header})
}

// endpoint is the backend as a ServiceEntry lists it.
func (b *backend) endpoint(rest string) string {
	return fmt.Sprintf("{address: %s, ports: {http: %d}, labels: {version: %s}%s}", b.ip, b.port, b.name, rest)
}

// service declares a host on HTTP port 80 with these backends as its endpoints.
func (w *world) service(host string, backends ...*backend) {
	w.t.Helper()
	var endpoints []string
	for _, b := range backends {
		endpoints = append(endpoints, b.endpoint(""))
	}
	w.serviceOf(host, "HTTP", endpoints...)
}

func (w *world) serviceOf(host, protocol string, endpoints ...string) {
	w.t.Helper()
	w.apply("ServiceEntry "+host, fmt.Sprintf("hosts: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: [{number: 80, name: http, protocol: %s}]\nendpoints: [%s]",
		host, protocol, strings.Join(endpoints, ", ")))
}

// proxy is a running Envoy.
type proxy struct {
	*lab.Process
	w     *world
	admin string
	http  string // host:port of its outbound HTTP
}

// sidecar starts an Envoy as a sidecar under interception NONE, with an HTTP proxy.
func (w *world) sidecar(name, locality string) *proxy {
	w.t.Helper()
	port, err := lab.FreePort()
	w.check(err)
	p := w.proxy(fmt.Sprintf("sidecar~%s~%s.default~default.svc.cluster.local", w.address(), name), locality, map[string]any{
		"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": fmt.Sprint(port), "LABELS": map[string]string{"app": name},
	})
	p.http = fmt.Sprintf("127.0.0.1:%d", port)
	return p
}

// gateway starts an Envoy of role router with the label gateway=name.
func (w *world) gateway(name string) *proxy {
	w.t.Helper()
	return w.proxy(fmt.Sprintf("router~%s~%s.default~default.svc.cluster.local", w.address(), name), "", map[string]any{
		"NAMESPACE": "default", "LABELS": map[string]string{"gateway": name},
	})
}

func (w *world) proxy(id, locality string, metadata map[string]any) *proxy {
	w.t.Helper()
	admin, err := lab.FreePort()
	w.check(err)
	host, port, _ := strings.Cut(w.discovery.GRPC, ":")
	parts := append(strings.Split(locality, "/"), "", "")
	ads := map[string]any{"ads": map[string]any{}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
	bootstrap, err := json.Marshal(map[string]any{
		"node":  map[string]any{"id": id, "cluster": "test", "metadata": metadata, "locality": map[string]any{"region": parts[0], "zone": parts[1], "sub_zone": parts[2]}},
		"admin": map[string]any{"address": socketAddress("127.0.0.1", admin)},
		"dynamic_resources": map[string]any{
			"ads_config": map[string]any{
				"api_type": cmp.Or(w.api, "GRPC"), "transport_api_version": "V3", "set_node_on_first_message_only": true,
				"grpc_services": []any{map[string]any{"envoy_grpc": map[string]any{"cluster_name": "xds-grpc"}}},
			},
			"cds_config": ads, "lds_config": ads,
		},
		"static_resources": map[string]any{"clusters": []any{map[string]any{
			"name": "xds-grpc", "type": "STATIC", "connect_timeout": "1s",
			"load_assignment": map[string]any{"cluster_name": "xds-grpc", "endpoints": []any{map[string]any{
				"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": socketAddress(host, json.Number(port))}}},
			}}},
			"typed_extension_protocol_options": map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
				"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
			}},
		}}},
	})
	w.check(err)
	name := strings.Split(id, "~")[2]
	path := filepath.Join(w.Dir, name+".json")
	w.check(os.WriteFile(path, bootstrap, 0o600))
	process, err := lab.Start(lab.Spec{Name: name, Dir: w.Dir, Argv: []string{
		w.Envoy, "-c", path, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning",
	}})
	w.check(err)
	p := &proxy{Process: process, w: w, admin: fmt.Sprintf("127.0.0.1:%d", admin)}
	w.t.Cleanup(func() {
		stats, err := lab.Stats(p.admin, `update_rejected$`)
		for stat, n := range stats {
			if n != 0 {
				w.t.Errorf("%s: %s = %d, want 0:\n%s", name, stat, n, process.Log())
			}
		}
		if err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
		process.Stop(stopLimit)
	})
	w.check(process.AwaitHTTP(20*time.Second, "http://"+p.admin+"/ready"))
	return p
}

func socketAddress(host string, port any) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": host, "port_value": port}}
}

// answer is what a client saw.
type answer struct {
	status int
	header http.Header
	body   string
	echo   echo
	took   time.Duration
}

// get sends one request through the sidecar's HTTP proxy; headers are pairs of name and value.
func (p *proxy) get(target string, header ...string) (answer, error) {
	return p.do(http.MethodGet, target, header...)
}

func (p *proxy) do(method, target string, header ...string) (answer, error) {
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.http}),
		},
	}
	return exchange(client, method, target, header...)
}

func exchange(client *http.Client, method, target string, header ...string) (answer, error) {
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequest(method, target, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, body: string(body), took: time.Since(began)}
	_ = json.Unmarshal(body, &a.echo) // what a proxy answers itself is not JSON
	return a, err
}

// until asks until the answer is as wanted: what was applied arrives within a moment.
func (p *proxy) until(want func(answer) error, target string, header ...string) answer {
	p.w.t.Helper()
	var last answer
	err := lab.Eventually(stopLimit, func() (err error) {
		if last, err = p.get(target, header...); err != nil {
			return err
		}
		return want(last)
	})
	if err != nil {
		p.w.t.Fatalf("%s: %v; discovery says:\n%s", target, err, p.w.discovery.Log())
	}
	return last
}

func status(want int) func(answer) error {
	return func(a answer) error {
		if a.status != want {
			return fmt.Errorf("status %d, want %d: %.200s", a.status, want, a.body)
		}
		return nil
	}
}

func from(backend string) func(answer) error {
	return func(a answer) error {
		if a.echo.Backend != backend {
			return fmt.Errorf("answered by %q with %d, want %s: %.200s", a.echo.Backend, a.status, backend, a.body)
		}
		return nil
	}
}

// stat returns the sum of the counters and gauges that match.
func (p *proxy) stat(filter string) (sum int64) {
	p.w.t.Helper()
	stats, err := lab.Stats(p.admin, filter)
	p.w.check(err)
	for _, n := range stats {
		sum += n
	}
	return sum
}
