package policies

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// asked answers Envoy's questions: a request with a pass is let in, and a connection from one address.
type asked struct {
	authv3.UnimplementedAuthorizationServer
	from string
}

func (a asked) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	request := r.GetAttributes().GetRequest().GetHttp()
	if request != nil && request.Headers["x-pass"] == "" {
		return &authv3.CheckResponse{
			Status: &statusv3.Status{Code: int32(codes.PermissionDenied)},
			HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode_PaymentRequired}, Body: "no pass",
			}},
		}, nil
	}
	if from := r.GetAttributes().GetSource().GetAddress().GetSocketAddress().GetAddress(); request == nil && from != a.from { // a connection
		return &authv3.CheckResponse{Status: &statusv3.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	return &authv3.CheckResponse{
		Status: &statusv3.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: "x-user", Value: "of grpc, body " + request.GetBody()}},
		}}},
	}, nil
}

func (asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("x-user", fmt.Sprintf("at %s, mesh %s, body %s, other %s", r.URL.Path, r.Header.Get("x-mesh"), body, r.Header.Get("x-other")))
	w.Header().Set("x-hidden", "of the provider")
	w.Header().Set("x-told", "of the provider")
	if r.Header.Get("x-pass") == "" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// meshOfProviders writes a MeshConfig with providers, and returns discovery's flags.
func meshOfProviders(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(path, []byte(`
extensionProviders:
- name: http
  envoyExtAuthzHttp: {service: http.test, port: 80, timeout: 20s, pathPrefix: /check, includeRequestHeadersInCheck: ["x-p*"], includeAdditionalHeadersInCheck: {x-mesh: own},
    includeRequestBodyInCheck: {maxRequestBytes: 100, allowPartialMessage: true}, headersToUpstreamOnAllow: [x-user], headersToDownstreamOnDeny: [x-told], headersToDownstreamOnAllow: [x-told]}
- name: grpc
  envoyExtAuthzGrpc: {service: default/grpc.test, port: 80, timeout: 20s, includeRequestBodyInCheck: {maxRequestBytes: 100}}
- {name: away, envoyExtAuthzHttp: {service: away.test, port: 80, statusOnError: "503"}}
- {name: open, envoyExtAuthzHttp: {service: away.test, port: 80, failOpen: true}}
- {name: nowhere, envoyExtAuthzHttp: {service: nowhere.test, port: 80}}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"--meshConfig", path}
}

// serveProviders starts the providers of HTTP and gRPC.
func (m *mesh) serveProviders() {
	m.T.Helper()
	endpoint := func() (net.Listener, string) {
		l, err := net.Listen("tcp", m.Address()+":0")
		m.Check(err)
		m.T.Cleanup(func() { l.Close() })
		at := l.Addr().(*net.TCPAddr)
		return l, fmt.Sprintf("{address: %s, ports: {http: %d}}", at.IP, at.Port)
	}
	l, at := endpoint()
	server := &http.Server{Handler: asked{}}
	go server.Serve(l)
	m.T.Cleanup(func() { server.Close() })
	m.ServiceOf("http.test", "HTTP", at)
	l, at = endpoint()
	rpc := grpc.NewServer()
	m.from = m.Address()
	authv3.RegisterAuthorizationServer(rpc, asked{from: m.from})
	go rpc.Serve(l)
	m.T.Cleanup(rpc.Stop)
	m.ServiceOf("grpc.test", "GRPC", at)
	m.ServiceOf("away.test", "HTTP", fmt.Sprintf("{address: %s, ports: {http: %d}}", m.Address(), lab.Port(m.T)))
}

// The provider decides about requests that a CUSTOM policy names, and sees no others. Without a provider to ask, what the
// policy names is denied, and nothing else.
func TestCustom(t *testing.T) {
	t.Parallel()
	m := newMesh(t, meshOfProviders(t)...)
	m.serveProviders()
	m.GatewayEnvoy("gw")
	pass := []string{"x-pass", "1", "x-other", "1", "x-user", "forged"}
	custom := func(provider string) string {
		return "{action: CUSTOM, provider: {name: " + provider + `}, rules: [{to: [{operation: {paths: ["/in/{**}"]}}]}]}`
	}
	m.ask("before", 200, "/in/a")
	for provider, user := range map[string]string{"http": "at /check/in/a, mesh own, body , other", "grpc": "of grpc, body"} {
		m.policy("asked", custom(provider))
		denied := m.ask("without a pass", map[string]int{"http": 401, "grpc": 402}[provider], "/in/a")
		if provider == "grpc" && denied.Body != "no pass" || provider == "http" && (denied.Header.Get("x-told") == "" || denied.Header.Get("x-hidden") != "") {
			t.Errorf("%s: the refusal is %+v", provider, denied)
		}
		in := m.ask("with a pass", 200, "/in/a", pass...)
		if got := in.Echo.Header.Values("x-user"); len(got) != 1 || got[0] != user {
			t.Errorf("%s: the workload gets x-user %q, want %q", provider, got, user)
		}
		if provider == "http" && in.Header.Get("x-told") == "" || in.Header.Get("x-hidden") != "" || in.Echo.Header.Get("x-hidden") != "" {
			t.Errorf("%s: the answer is %+v", provider, in)
		}
		m.ask("what no rule names", 200, "/out")
	}
	for provider, status := range map[string]int{"away": 503, "nowhere": 403, "unknown": 403} {
		m.policy("asked", custom(provider))
		m.ask("of "+provider, status, "/in/a", pass...)
		m.ask("what no rule names, of "+provider, 200, "/out")
	}
	m.policy("asked", custom("http"))
	m.ask("with a pass", 200, "/in/a", pass...)
	m.policy("second", strings.Replace(custom("grpc"), "/in/", "/second/", 1))
	m.ask("of two providers", 403, "/in/a", pass...)
	m.ask("of the second", 403, "/second/a", pass...)
	m.ask("what no rule names", 200, "/out")
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		notes, err := lab.Get("http://" + m.Discovery.HTTP + "/debug/notes")
		if err == nil && strings.Count(notes, "closed-policy") != 2 {
			err = fmt.Errorf("the notes are %s", notes)
		}
		return err
	}))
	m.Check(os.Remove(filepath.Join(m.Config, "second.yaml")))
	m.ask("of one again", 200, "/in/a", pass...)
	m.policy("asked", custom("open"))
	m.ask("of one that fails open", 200, "/in/a")
}
