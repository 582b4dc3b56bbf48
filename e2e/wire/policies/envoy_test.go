//go:build wire

package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// told is a script of Envoy's first filter. On a request's way in it does what the header x-lua says: so a request has a method, a
// host or metadata that no client can send. On the way out it tells what the filters have left in metadata.
const told = `
function envoy_on_request(h)
  local code = h:headers():get("x-lua")
  if code then
    h:headers():remove("x-lua")
    assert(loadstring("local h = ... " .. code))(h)
  end
end
function envoy_on_response(h)
  local seen = {}
  local function read(metadata, filter)
    for key, value in pairs(metadata:get(filter) or {}) do table.insert(seen, key .. "=" .. tostring(value)) end
  end
  read(h:streamInfo():dynamicMetadata(), "envoy.filters.http.rbac")
  read(h:streamInfo():dynamicMetadata(), "envoy.common")
  read(h:connectionStreamInfo():dynamicMetadata(), "envoy.filters.network.rbac")
  read(h:connectionStreamInfo():dynamicMetadata(), "envoy.common")
  table.sort(seen)
  h:headers():add("x-seen", table.concat(seen, ";"))
end`

// policyJudge is an Envoy with a listener for each list of filters.
type policyJudge struct {
	dir       string
	roots     *lab.Authority
	listeners []any
}

func newPolicyJudge(t *testing.T) *policyJudge {
	t.Helper()
	j := &policyJudge{dir: t.TempDir()}
	var err error
	if j.roots, err = lab.NewAuthority("mesh"); err != nil {
		t.Fatal(err)
	}
	own, err := j.roots.Issue("server.test", 2)
	if err == nil {
		err = own.Write(j.dir, "server")
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func typed(message string, config map[string]any) map[string]any {
	config["@type"] = "type.googleapis.com/envoy.extensions." + message
	return map[string]any{"name": message, "typed_config": config}
}

func packed(filters []*anypb.Any) (out []any) {
	for i, f := range filters {
		text, err := protojson.Marshal(f)
		if err != nil {
			panic(err)
		}
		out = append(out, map[string]any{"name": fmt.Sprint("filter-", i), "typed_config": json.RawMessage(text)})
	}
	return out
}

// serve adds a listener with filters of HTTP or of connections, which answers what they let in, and returns its port.
func (j *policyJudge) serve(t *testing.T, filters []*anypb.Any, tcp bool) (port int) {
	t.Helper()
	port = lab.Port(t)
	teller := typed("filters.http.lua.v3.Lua", map[string]any{"default_source_code": map[string]any{"inline_string": told}})
	router := typed("filters.http.router.v3.Router", map[string]any{})
	ofHTTP, ofTCP := []any{teller}, []any(nil)
	if tcp {
		ofTCP = packed(filters)
	} else {
		ofHTTP = append(ofHTTP, packed(filters)...)
	}
	chain := append(ofTCP, typed("filters.network.http_connection_manager.v3.HttpConnectionManager", map[string]any{
		"stat_prefix": "http", "use_remote_address": false,
		"route_config": json.RawMessage(`{"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": ""}, "direct_response": {"status": 200}}]}]}`),
		"http_filters": append(ofHTTP, router),
	}))
	file := func(name string) any { return map[string]any{"filename": filepath.Join(j.dir, name)} }
	secured := typed("transport_sockets.tls.v3.DownstreamTlsContext", map[string]any{
		"common_tls_context": map[string]any{
			"tls_certificates":   []any{map[string]any{"certificate_chain": file("server.pem"), "private_key": file("server.key")}},
			"validation_context": map[string]any{"trusted_ca": file("ca.pem")},
		},
	})
	j.listeners = append(j.listeners, map[string]any{
		"name": fmt.Sprint("at-", port), "address": json.RawMessage(lab.SocketAddress(fmt.Sprintf("127.0.0.1:%d", port))),
		"additional_addresses": []any{map[string]any{"address": json.RawMessage(lab.SocketAddress(fmt.Sprintf("[::1]:%d", port)))}},
		"listener_filters": []any{
			typed("filters.listener.proxy_protocol.v3.ProxyProtocol", map[string]any{"rules": []any{map[string]any{
				"tlv_type": metadataTLV, "on_tlv_present": map[string]any{"metadata_namespace": "envoy.filters.a.b", "key": "c"},
			}}}),
			typed("filters.listener.tls_inspector.v3.TlsInspector", map[string]any{}),
		},
		"filter_chains": []any{
			map[string]any{"filter_chain_match": map[string]any{"transport_protocol": "tls"}, "filters": chain, "transport_socket": secured},
			map[string]any{"filter_chain_match": map[string]any{"transport_protocol": "raw_buffer"}, "filters": chain},
		},
	})
	return port
}

// start starts the Envoy, and the providers that its filters ask.
func (j *policyJudge) start(t *testing.T) {
	t.Helper()
	admin := lab.Port(t)
	ofHTTP, ofGRPC := startProviders(t)
	bootstrap, err := json.Marshal(map[string]any{
		"node":  map[string]any{"id": "judge", "cluster": "judge"},
		"admin": map[string]any{"address": json.RawMessage(lab.SocketAddress(fmt.Sprintf("127.0.0.1:%d", admin)))},
		"static_resources": map[string]any{
			"listeners": j.listeners, "clusters": []any{providerCluster(httpProvider, ofHTTP, "http_protocol_options"), providerCluster(grpcProvider, ofGRPC, "http2_protocol_options")},
		},
		"layered_runtime": map[string]any{"layers": []any{map[string]any{"name": "static", "static_layer": map[string]any{"re2.max_program_size.error_level": 32768}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(j.dir, "envoy.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	envoy, err := lab.FindEnvoy()
	if err != nil {
		t.Fatal(err)
	}
	p, err := lab.Start(lab.Spec{Name: "judge", Dir: j.dir, Argv: []string{envoy, "--config-path", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(lab.StopLimit) })
	if err := lab.Eventually(time.Minute, func() error {
		_, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", admin))
		return err
	}); err != nil {
		log, _ := os.ReadFile(p.LogFile)
		t.Fatalf("%v: %.3000s", err, log)
	}
}

const httpProvider, grpcProvider = "http-provider", "grpc-provider"

// pass is what lets a request pass a provider, which refuses all others: so an answer shows whether it was asked.
const pass = "pass"

type provider struct {
	authv3.UnimplementedAuthorizationServer
}

func (provider) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	if r.GetAttributes().GetRequest().GetHttp().GetHeaders()["x-custom-id"] == pass {
		return &authv3.CheckResponse{Status: &statusv3.Status{Code: int32(codes.OK)}}, nil
	}
	return &authv3.CheckResponse{Status: &statusv3.Status{Code: int32(codes.PermissionDenied)}, HttpResponse: &authv3.CheckResponse_DeniedResponse{
		DeniedResponse: &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode_PaymentRequired}},
	}}, nil
}

func (provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("x-custom-id") != pass {
		w.WriteHeader(http.StatusPaymentRequired)
	}
}

// startProviders returns the addresses of a provider of HTTP and of one of gRPC.
func startProviders(t *testing.T) (ofHTTP, ofGRPC string) {
	t.Helper()
	server := httptest.NewServer(provider{})
	t.Cleanup(server.Close)
	l := httptest.NewUnstartedServer(nil).Listener
	rpc := grpc.NewServer()
	authv3.RegisterAuthorizationServer(rpc, provider{})
	go rpc.Serve(l)
	t.Cleanup(rpc.Stop)
	return strings.TrimPrefix(server.URL, "http://"), l.Addr().String()
}

func providerCluster(name, address, protocol string) any {
	return map[string]any{
		"name": name,
		"load_assignment": map[string]any{"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": []any{
			map[string]any{"endpoint": map[string]any{"address": json.RawMessage(lab.SocketAddress(address))}},
		}}}},
		"typed_extension_protocol_options": map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": map[string]any{protocol: map[string]any{}},
		}},
	}
}
