package lab

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// FindEnvoy returns the real Envoy that tests use: $ENVOY, else bin/envoy of the project, else the one in PATH.
func FindEnvoy() (string, error) {
	if path := os.Getenv("ENVOY"); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	if path := filepath.Join(root, "bin", "envoy"); exec.Command(path, "--version").Run() == nil {
		return path, nil
	}
	path, err := exec.LookPath("envoy")
	if err != nil {
		return "", errors.New("no Envoy in $ENVOY, bin/envoy or PATH: run make setup")
	}
	return path, nil
}

// Root returns the project's directory, from any directory of it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("find go.mod: not in the project's tree")
}

// Path is a path in the project: Path("examples", "bookinfo").
func Path(elem ...string) string {
	root, err := Root()
	if err != nil {
		panic(err) // the test's working directory is always in the project
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// Validate runs the real Envoy's validation of a bootstrap. The error has Envoy's message.
func Validate(bootstrap []byte) error {
	_, err := Warnings(bootstrap)
	return err
}

// Warnings validates a bootstrap, and returns the warnings of the real Envoy, a line each.
func Warnings(bootstrap []byte) (string, error) {
	envoy, err := FindEnvoy()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "pilotlight-validate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bootstrap.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		return "", err
	}
	command := exec.Command(envoy, "--mode", "validate", "--log-level", "warning", "--config-path", path)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("envoy --mode validate: %w:\n%s%s", err, stderr.String(), stdout.String())
	}
	return stderr.String(), nil
}

// Proxy is a running Envoy.
type Proxy struct {
	*Process
	W     *World
	ID    string // of its node
	Admin string // host:port
	HTTP  string // host:port of its outbound HTTP
}

// SidecarEnvoy starts an Envoy as a sidecar under interception NONE, with an HTTP proxy.
func (w *World) SidecarEnvoy(name, locality string) *Proxy {
	w.T.Helper()
	return w.SidecarEnvoyWith(name, locality, nil)
}

// SidecarEnvoyWith starts a sidecar with more metadata.
func (w *World) SidecarEnvoyWith(name, locality string, metadata map[string]any) *Proxy {
	w.T.Helper()
	port, err := FreePort()
	w.Check(err)
	all := map[string]any{
		"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": fmt.Sprint(port), "LABELS": map[string]string{"app": name},
	}
	maps.Copy(all, metadata)
	p := w.RunEnvoy(w.id("sidecar", name), locality, all)
	p.HTTP = fmt.Sprintf("127.0.0.1:%d", port)
	return p
}

// id returns the node ID of an Envoy of the namespace default, at an address of its own.
func (w *World) id(role, name string) string {
	return fmt.Sprintf("%s~%s~%s.default~default.svc.%s", role, w.Address(), name, cmp.Or(w.Domain, "cluster.local"))
}

// GatewayEnvoy starts an Envoy of role router with the label gateway=name.
func (w *World) GatewayEnvoy(name string) *Proxy {
	w.T.Helper()
	return w.RunEnvoy(w.id("router", name), "", map[string]any{
		"NAMESPACE": "default", "LABELS": map[string]string{"gateway": name},
	})
}

// RunEnvoy starts an Envoy with this node, which discovery configures, and waits until it is ready. locality is
// region/zone/sub-zone, or "". When the test ends it is an error if Envoy has refused a response.
func (w *World) RunEnvoy(id, locality string, metadata map[string]any) *Proxy {
	w.T.Helper()
	admin, err := FreePort()
	w.Check(err)
	host, port, _ := strings.Cut(w.Discovery.GRPC, ":")
	parts := append(strings.Split(locality, "/"), "", "")
	ads := map[string]any{"ads": map[string]any{}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
	bootstrap, err := json.Marshal(map[string]any{
		"node":  map[string]any{"id": id, "cluster": "test", "metadata": metadata, "locality": map[string]any{"region": parts[0], "zone": parts[1], "sub_zone": parts[2]}},
		"admin": map[string]any{"address": socketAddress("127.0.0.1", admin)},
		"dynamic_resources": map[string]any{
			"ads_config": map[string]any{
				"api_type": cmp.Or(w.API, "GRPC"), "transport_api_version": "V3", "set_node_on_first_message_only": true,
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
	w.Check(err)
	name := strings.Split(id, "~")[2]
	path := filepath.Join(w.Dir, name+".json")
	w.Check(os.WriteFile(path, bootstrap, 0o600))
	process, err := Start(Spec{Name: name, Dir: w.Dir, Env: w.Env, Argv: []string{
		w.Envoy, "-c", path, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning", "--file-flush-interval-msec", "100",
	}})
	w.Check(err)
	p := &Proxy{Process: process, W: w, ID: id, Admin: fmt.Sprintf("127.0.0.1:%d", admin)}
	w.T.Cleanup(func() {
		stats, err := Stats(p.Admin, `update_rejected$`)
		for stat, n := range stats {
			if n != 0 {
				w.T.Errorf("%s: %s = %d, want 0:\n%s", name, stat, n, process.Log())
			}
		}
		if err != nil {
			w.T.Errorf("%s: %v", name, err)
		}
		process.Stop(StopLimit)
	})
	return p.Ready()
}

// socketAddress returns Envoy's SocketAddress, to be marshalled.
func socketAddress(host string, port any) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": host, "port_value": port}}
}

// Ready waits until Envoy has its configuration and listens.
func (p *Proxy) Ready() *Proxy {
	p.W.T.Helper()
	p.W.Check(p.AwaitHTTP(30*time.Second, "http://"+p.Admin+"/ready"))
	p.W.Check(AwaitWorkers(p.Admin))
	return p
}

// Stat returns the sum of the counters and gauges that match.
func (p *Proxy) Stat(filter string) (sum int64) {
	p.W.T.Helper()
	stats, err := Stats(p.Admin, filter)
	p.W.Check(err)
	for _, n := range stats {
		sum += n
	}
	return sum
}

// StaticBootstrap returns a bootstrap without discovery: one inbound listener, named "inbound", in front of a program,
// both given as host:port. Every answer has the revision in its header x-rev.
func StaticBootstrap(listener, program string, revision int) string {
	return fmt.Sprintf(`{
  "node": {"id": "standalone", "cluster": "standalone"},
  "static_resources": {
    "listeners": [{
      "name": "inbound", "traffic_direction": "INBOUND", "address": %s,
      "filter_chains": [{"filters": [{"name": "http", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "inbound",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{
          "match": {"prefix": "/"}, "route": {"cluster": "program", "timeout": "0s"},
          "response_headers_to_add": [{"header": {"key": "x-rev", "value": "%d"}}]
        }]}]},
        "http_filters": [{"name": "router", "typed_config": {
          "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]
      }}]}]
    }],
    "clusters": [{"name": "program", "load_assignment": {"cluster_name": "program", "endpoints": [{"lb_endpoints": [
      {"endpoint": {"address": %s}}]}]}}]
  }
}`, SocketAddress(listener), revision, SocketAddress(program))
}

// SocketAddress returns Envoy's JSON of host:port.
func SocketAddress(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf(`{"socket_address": {"address": %q, "port_value": %s}}`, host, port)
}
