package hostile

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Objects of a tenant that would cost every proxy of the mesh memory reach only proxies of its own namespace: others have none of their
// listeners and clusters, serve on, and get what comes later. Each object has a note.
func TestATenantWeighsLittleOnOthers(t *testing.T) {
	t.Parallel()
	status := fmt.Sprintf("127.0.0.1:%d", lab.Port(t))
	s := startWith(t, func(w *lab.Workload, _ *lab.World) {
		w.Flags = append(w.Flags, "--statusPort", strings.TrimPrefix(status, "127.0.0.1:"))
	})
	sidecar := s.SidecarEnvoy("app", "").Ready()
	list := func(n int, each string) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, each, i, 20000+i)
		}
		return out.String()
	}
	s.write("evil", "evil", `
ServiceEntry ports
  hosts: [ports.evil.test]
  resolution: STATIC
  ports: [`+list(3000, "{number: %[2]d, name: http-%[1]d, protocol: HTTP}, ")+`]
  endpoints: [{address: 127.0.0.79}]
ServiceEntry hosts
  hosts: [`+list(2600, "h%[1]d.evil.test, ")+`]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.79}]
Gateway ports
  selector: {app: gw}
  servers: [`+list(600, `{port: {number: %[2]d, name: http-%[1]d, protocol: HTTP}, hosts: ["*"]}, `)+`]`)
	ca, err := lab.NewAuthority("small") // roots of a file cost as many as the system's in what is counted, and less time here
	s.Check(err)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	s.Check(os.WriteFile(roots, ca.PEM(), 0o644))
	s.write("roots", "roots", `
ServiceEntry roots
  hosts: [`+list(400, "h%[1]d.roots.test, ")+`]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.79}]
DestinationRule roots
  host: "*.roots.test"
  trafficPolicy: {tls: {mode: SIMPLE, caCertificates: `+roots+`}}
VirtualService bodies
  hosts: [`+list(100, "body%[1]d.test, ")+`]
  gateways: [istio-ingress/gw, mesh]
  http: [{directResponse: {status: 200, body: {string: `+strings.Repeat("x", 1<<20)+`}}}]`)
	s.write("later", "bank", `
ServiceEntry later
  hosts: [later.test]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.79}]
VirtualService later
  hosts: [later.test]
  gateways: [istio-ingress/gw, mesh]
  http: [{directResponse: {status: 298}}]`)
	sidecar.Until(lab.Status(298), "http://later.test/")
	s.Await(s.client(), "http://later.test/", lab.Status(298))
	if a, err := lab.Exchange(s.client(), http.MethodGet, "http://own.test/"); err != nil || a.Status != 299 {
		t.Errorf("the gateway's own route: %d, %v", a.Status, err)
	}
	clusters, err := lab.Get("http://" + sidecar.Admin + "/clusters?filter=evil.test")
	s.Check(err)
	if n := strings.Count(clusters, "::default_priority::max_connections::"); n != 2500 || strings.Contains(clusters, "ports.evil.test") {
		t.Errorf("the sidecar has %d clusters of evil, want 2500 of hosts", n)
	}
	clusters, err = lab.Get("http://" + sidecar.Admin + "/clusters?filter=roots.test")
	s.Check(err)
	if n := strings.Count(clusters, "::default_priority::max_connections::"); n != 300 {
		t.Errorf("the sidecar has %d clusters with roots of their own, want 300", n)
	}
	if a, err := lab.Exchange(s.client(), http.MethodGet, "http://body1.test/"); err != nil || a.Status != 404 {
		t.Errorf("a body of a megabyte for each of 100 hosts: %d, %v, want 404", a.Status, err)
	}
	listeners, err := lab.Get("http://" + s.agent.Admin + "/listeners")
	s.Check(err)
	if strings.Contains(listeners, ":20000") {
		t.Errorf("the gateway has listeners of evil:\n%s", listeners)
	}
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		notes, err := lab.Get("http://" + s.Discovery.HTTP + "/debug/notes")
		if n := strings.Count(notes, `"too-much"`); err == nil && n != 5 {
			err = fmt.Errorf("%d notes, want 5: %.2000s", n, notes)
		}
		return err
	}))

	s.Check(s.agent.AwaitHTTP(lab.StopLimit, "http://"+status+"/healthz/ready"))
	// Local readers of all that the gateway has do not fail the Pod's probes. Few of the 64 get an answer, and the next one does.
	dump := "http://" + s.agent.Admin + "/config_dump?include_eds"
	var readers sync.WaitGroup
	for range 64 {
		readers.Go(func() {
			for range 2 {
				_, _ = lab.Get(dump)
			}
		})
	}
	read := make(chan error, 1)
	go func() {
		readers.Wait()
		patient := http.Client{Timeout: lab.StopLimit} // what Envoy makes of so much takes it seconds on a busy machine
		read <- lab.Eventually(2*lab.StopLimit, func() error {
			response, err := patient.Get(dump)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
			return err
		})
	}()
	s.Check(lab.Eventually(4*lab.StopLimit, func() error {
		if _, err := lab.Get("http://" + status + "/healthz/ready"); err != nil {
			t.Fatalf("with 64 readers of /config_dump: %v", err)
		}
		select {
		case err := <-read:
			s.Check(err)
			return nil
		default:
			return errors.New("they still read")
		}
	}))
}
