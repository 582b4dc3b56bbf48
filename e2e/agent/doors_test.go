package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretpb "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// door is an endpoint of the agent that a tenant may have named in a ServiceEntry.
type door struct{ name, address, host string } // host is the Host header that the route sets

// doorsOf lists the agent's ports by each of their addresses, and the sockets in its directory by these names.
func doorsOf(p *pupil, sockets ...string) (doors []door) {
	_, admin, _ := net.SplitHostPort(p.Admin)
	_, status, _ := net.SplitHostPort(p.status)
	for _, port := range []string{admin, status} {
		hosts := append([]string{"127.0.0.1", "::1", "localhost", "::ffff:127.0.0.1"}, ownAddresses()...)
		for _, host := range hosts {
			doors = append(doors, door{host + " " + port, lab.SocketAddress(net.JoinHostPort(host, port)), "localhost"})
		}
	}
	for _, path := range sockets {
		address := fmt.Sprintf(`{"pipe": {"path": %q}}`, path)
		for _, host := range []string{"agent", "envoy"} {
			doors = append(doors, door{filepath.Base(path) + " as " + host, address, host})
		}
	}
	return doors
}

// ownAddresses returns an address of this host that is not loopback, if it has one.
func ownAddresses() []string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return []string{network.IP.String()}
		}
	}
	return nil
}

// open makes Envoy serve each door as host dN.test, over HTTP/1 and HTTP/2, without the headers by which a proxy shows.
func (p *pupil) open(doors []door) {
	p.t.Helper()
	clusters, hosts := []string{p.good}, []string{}
	for i, d := range doors {
		kind := "STATIC"
		if strings.Contains(d.name, "localhost") {
			kind = "STRICT_DNS"
		}
		for _, http2 := range []bool{false, true} {
			name, options := fmt.Sprintf("d%d-%t", i, http2), ""
			if http2 {
				options = `, "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
					"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
					"explicit_http_config": {"http2_protocol_options": {}}}}`
			}
			clusters = append(clusters, fmt.Sprintf(`{"name": %q, "type": %q, "connect_timeout": "1s", "load_assignment": {"cluster_name": %q,
				"endpoints": [{"lb_endpoints": [{"endpoint": {"address": %s}}]}]}%s}`, name, kind, name, d.address, options))
		}
		hosts = append(hosts, fmt.Sprintf(`{"name": "d%d", "domains": ["d%d.test", "d%d.test:*"], "request_headers_to_remove": ["x-forwarded-for"], "routes": [
			{"match": {"prefix": "/", "grpc": {}}, "route": {"cluster": "d%d-true", "timeout": "5s", "host_rewrite_literal": %q}},
			{"match": {"prefix": "/"}, "route": {"cluster": "d%d-false", "timeout": "5s", "host_rewrite_literal": %q}}]}`, i, i, i, i, d.host, i, d.host))
	}
	p.clusters(clusters...)
	p.routes(fmt.Sprintf(`{"name": "doors", "virtual_hosts": [%s]}`, strings.Join(hosts, ", ")))
	p.listeners(httpListener("l", p.inbound[0], "doors"))
	if err := lab.Eventually(lab.StopLimit, func() error {
		conn, err := net.Dial("tcp", p.inbound[0])
		if err == nil {
			err = conn.Close()
		}
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
}

// through sends a request to a door through Envoy.
func (p *pupil) through(n int, method, path string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequest(method, fmt.Sprintf("http://d%d.test%s", n, path), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := lab.ClientTo(p.inbound[0], &tls.Config{}).Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	var body [400]byte
	size, _ := response.Body.Read(body[:])
	return response.StatusCode, string(body[:size])
}

// key asks a door for the workload's certificate, as Envoy does.
func (p *pupil) key(n int) error {
	conn, err := grpc.NewClient("passthrough:///"+p.inbound[0], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(fmt.Sprintf("d%d.test", n)))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	stream, err := secretpb.NewSecretDiscoveryServiceClient(conn).StreamSecrets(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&discoverypb.DiscoveryRequest{
		TypeUrl: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", ResourceNames: []string{"default"},
	})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// scraped asks the agent's own listeners as scrapers and probes on other hosts do: by an address of this host, by IPv6, by a name, and
// through a proxy. What is not a read of their one path is refused, whatever Host it names.
func scraped(t *testing.T, ports []int) {
	hosts := append([]string{"127.0.0.1", "::1"}, ownAddresses()...)
	for i, path := range []string{"/stats/prometheus", "/healthz/ready"} {
		ask := func(host, method, path string, header ...string) (int, string) {
			t.Helper()
			request, err := http.NewRequest(method, "http://"+net.JoinHostPort(host, strconv.Itoa(ports[i]))+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for h := range slices.Chunk(header, 2) {
				request.Header.Set(h[0], h[1])
			}
			request.Host = cmp.Or(request.Header.Get("Host"), request.Host)
			response, err := fresh.Do(request)
			if err != nil {
				t.Fatalf("%s %s at %s, %q: %v", method, path, host, header, err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(io.LimitReader(response.Body, 100))
			return response.StatusCode, string(body)
		}
		for _, host := range hosts {
			for _, header := range [][]string{
				nil,
				{"Host", "pod-7.shop.svc:15090"},
				{"X-Forwarded-For", "10.1.2.3"},
				{"Forwarded", "for=10.1.2.3"},
				{"Host", "scrape.example", "X-Forwarded-For", "10.1.2.3, 10.3.2.1", "Via", "1.1 proxy", "Accept", "application/openmetrics-text"},
			} {
				if code, body := ask(host, "GET", path, header...); code != http.StatusOK {
					t.Errorf("GET %s at %s, %q: %d %s", path, host, header, code, body)
				}
			}
		}
		for _, other := range []string{"/config_dump", "/drain", "/quitquitquit", path + "/", "/"} {
			for _, method := range []string{"GET", "POST"} {
				if code, body := ask("127.0.0.1", method, other, "Host", "localhost"); code != http.StatusNotFound {
					t.Errorf("%s %s: %d %s, want 404", method, other, code, body)
				}
			}
		}
	}
}

// A control plane gives Envoy clusters with the agent's own ports and sockets as endpoints, and routes that hide the
// proxy. A client outside gets what any stranger gets, and nothing else: no key, no drain, no end, no configuration.
func TestDoorsThroughEnvoy(t *testing.T) {
	t.Parallel()
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := authority.Issue("workload", 1001)
	if err != nil {
		t.Fatal(err)
	}
	certs := filepath.Join(t.TempDir(), "certs")
	if err := identity.Mount(certs); err != nil {
		t.Fatal(err)
	}
	ports := make([]int, 2)
	for i := range ports {
		if ports[i], err = lab.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	p := startPupil(t, startScript(t), "--certDir", certs, "--ip", "::1", // of both families
		"--envoyPrometheusPort", fmt.Sprint(ports[0]), "--envoyStatusPort", fmt.Sprint(ports[1]))
	p.clusters(p.good)
	p.listeners(tcpListener("l", p.inbound[1], "good"))
	p.await("ready", healthy)

	guessed := []string{"sds.sock", "agent.sock", "admin-rev0.sock", "admin-rev1.sock", "agent.lock", "envoy-rev0.json"}
	for i, name := range guessed {
		guessed[i] = filepath.Join(p.ConfigPath, name)
	}
	known, err := filepath.Glob(filepath.Join(p.ConfigPath, "agent*.sock"))
	if err != nil || len(known) != 1 {
		t.Fatalf("the owner's socket: %q, %v", known, err)
	}
	doors := doorsOf(p, append(guessed, known...)...)
	p.open(doors)
	for i, d := range doors {
		for _, path := range []string{"/drain", "/undrain", "/quitquitquit", "/logging?level=trace", "/drain_listeners", "/reset_counters"} {
			if code, body := p.through(i, http.MethodPost, path); code < 400 {
				t.Errorf("%s: POST %s: %d %q", d.name, path, code, body)
			}
		}
		for _, path := range []string{"/config_dump", "/server_info", "/certs", "/clusters", "/stats", "/listeners", "/", "/why", "/help"} {
			if code, body := p.through(i, http.MethodGet, path); code < 400 {
				t.Errorf("%s: GET %s: %d %q", d.name, path, code, body)
			}
		}
		if err := p.key(i); err == nil {
			t.Errorf("%s: gives the workload's key", d.name)
		}
	}
	p.await("as ready as before", healthy)

	for _, own := range []string{fmt.Sprintf("http://127.0.0.1:%d/stats/prometheus", ports[0]), fmt.Sprintf("http://127.0.0.1:%d/healthz/ready", ports[1])} {
		if body, err := lab.Get(own); err != nil || body == "" {
			t.Errorf("the agent's own listener %s: %v", own, err)
		}
	}
	t.Run("scraped", func(t *testing.T) { scraped(t, ports) })
	if i := slices.IndexFunc(doors, func(d door) bool {
		return strings.HasPrefix(d.name, "127.0.0.1") && strings.Contains(d.address, p.status[10:])
	}); i >= 0 {
		if code, body := p.through(i, http.MethodGet, "/healthz/ready"); code != http.StatusOK {
			t.Errorf("a probe through Envoy: %d %q, want what every stranger gets", code, body)
		}
	}
	if _, err := lab.Get("http://" + p.Admin + "/config_dump"); err != nil {
		t.Errorf("a program on this host: %v", err)
	}
	for _, path := range []string{"/drain", "/undrain"} {
		if code, body, err := post("http://" + p.status + path); err != nil || code != http.StatusOK {
			t.Errorf("a program on this host: POST %s: %d %q, %v", path, code, body, err)
		}
	}
}
