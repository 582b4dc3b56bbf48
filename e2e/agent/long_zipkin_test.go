//go:build long

package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// zipkin starts a Zipkin server, and returns its host:port.
func (w *world) zipkin() bootstrap.Address {
	w.T.Helper()
	jar := lab.Path("bin/zipkin.jar")
	if _, err := os.Stat(jar); err != nil {
		w.T.Fatalf("%v: run make setup", err)
	}
	a := bootstrap.Address{Host: "127.0.0.1", Port: lab.Port(w.T)}
	server, err := lab.Start(lab.Spec{Name: "zipkin", Dir: w.Dir, Argv: append(lab.Java(w.T),
		"-Xmx128m", "-jar", jar, "--armeria.ports[0].ip=127.0.0.1",
		fmt.Sprintf("--armeria.ports[0].port=%d", a.Port), "--armeria.ports[0].protocols[0]=http",
	)})
	w.Check(err)
	w.T.Cleanup(func() { server.Stop(lab.StopLimit) })
	w.Check(server.AwaitHTTP(3*time.Minute, fmt.Sprintf("http://%s/health", a)))
	return a
}

// zipkinSpan is what Zipkin says of one.
type zipkinSpan struct {
	TraceID, Name, Kind string
	LocalEndpoint       struct{ ServiceName string }
	Tags                map[string]string
}

// awaitSpan waits until Zipkin has a span of a trace by a service.
func (w *world) awaitSpan(zipkin bootstrap.Address, trace, service, path string) {
	w.T.Helper()
	w.Check(lab.Eventually(30*time.Second, func() error {
		body, err := lab.Get(fmt.Sprintf("http://%s/api/v2/trace/%s", zipkin, trace))
		if err != nil {
			return err
		}
		var spans []zipkinSpan
		if err := json.Unmarshal([]byte(body), &spans); err != nil {
			return err
		}
		for _, s := range spans {
			if s.TraceID == trace && s.LocalEndpoint.ServiceName == service &&
				s.Tags["http.url"] == "http://app.test"+path && s.Tags["http.status_code"] == "200" {
				return nil
			}
		}
		return fmt.Errorf("no span of %s %s in %s", service, path, body)
	}))
}

// A request makes spans in a real Zipkin: by the collector that a proxy is given, from a listener that traces and names
// none; and by the mesh's own provider, from what discovery sends, whether or not the proxy is given one.
func TestLongZipkin(t *testing.T) {
	mesh := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(mesh, []byte(`
extensionProviders: [{name: zipkin, zipkin: {service: zipkin.test, port: 80}}]
defaultProviders: {tracing: [zipkin]}
defaultConfig: {tracing: {sampling: 100}}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--meshConfig", mesh)
	zipkin := w.zipkin()
	app := w.Backend("app")
	w.Service("app.test", app)
	w.ServiceOf("zipkin.test", "HTTP", fmt.Sprintf("{address: %s, ports: {http: %d}}", zipkin.Host, zipkin.Port))

	params := w.params("given")
	params.Zipkin = zipkin
	port := lab.Port(w.T)
	given := w.boot(params, listener(port, app, `, "tracing": {}`)).Ready()
	const first, second = "463ac35c9f6413ad48485a3953bb6124", "463ac35c9f6413ad48485a3953bb6125"
	b3 := func(trace string) []string {
		return []string{"Host", "app.test", "x-b3-traceid", trace, "x-b3-spanid", "a2fb4a1d1a96d312", "x-b3-sampled", "1"}
	}
	if _, err := ask(port, "/static", b3(first)...); err != nil {
		t.Fatal(err)
	}
	w.awaitSpan(zipkin, first, "given", "/static")

	given.Until(lab.From("app"), "http://app.test/")
	if _, err := given.Get("http://app.test/discovered", b3(second)...); err != nil {
		t.Fatal(err)
	}
	w.awaitSpan(zipkin, second, "given", "/discovered")
	stats, err := lab.Stats(given.Admin, `^cluster\.zipkin\.upstream_rq_202$`)
	if err != nil || stats["cluster.zipkin.upstream_rq_202"] == 0 {
		t.Errorf("the collector that the proxy was given got nothing: %v %v", stats, err)
	}

	// The agent's own way, where the mesh names no provider.
	asks := filepath.Join(t.TempDir(), "mesh.yaml")
	w.Check(os.WriteFile(asks, []byte("enableTracing: true\ndefaultConfig: {tracing: {sampling: 100}}\n"), 0o644))
	own := newWorld(t, "--meshConfig", asks)
	own.Service("app.test", app)
	httpPort := lab.Port(own.T)
	own.agent(lab.Workload{
		Name: "own", App: "own", IP: own.Address(), ProxyPort: httpPort, Flags: []string{"--zipkinAddress", zipkin.String()},
	})
	client := lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", httpPort), nil)
	own.Await(client, "http://app.test/", lab.From("app"))
	const third = "463ac35c9f6413ad48485a3953bb6126"
	r, err := http.NewRequest(http.MethodGet, "http://app.test/own", nil)
	w.Check(err)
	for i, header := 2, b3(third); i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(r)
	w.Check(err)
	response.Body.Close()
	w.awaitSpan(zipkin, third, "own", "/own")
}
