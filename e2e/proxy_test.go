package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

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
	return w.sidecarWith(name, locality, nil)
}

// sidecarWith starts a sidecar with more metadata.
func (w *world) sidecarWith(name, locality string, metadata map[string]any) *proxy {
	w.t.Helper()
	port, err := lab.FreePort()
	w.check(err)
	all := map[string]any{
		"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": fmt.Sprint(port), "LABELS": map[string]string{"app": name},
	}
	maps.Copy(all, metadata)
	p := w.proxy(fmt.Sprintf("sidecar~%s~%s.default~default.svc.cluster.local", w.address(), name), locality, all)
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
	process, err := lab.Start(lab.Spec{Name: name, Dir: w.Dir, Env: w.env, Argv: []string{
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
