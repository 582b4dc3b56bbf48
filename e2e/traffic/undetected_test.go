package traffic

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// someKeys is a key set with a key of nobody's.
const someKeys = `{"keys":[{"kty":"EC","crv":"P-256","x":"Mki1sfaDENH3qyouI01WzUAXDlooWvgseqfwrE6FN9E","y":"HlROMPezoWh6iwuJ9nFysnQ_7bpju4E9SO7qzj-_g8Q"}]}`

const forged = "Host: app.test\r\nAuthorization: Bearer aaa.bbb.ccc\r\nx-payload: forged\r\nConnection: close\r\n\r\n"

// undetected are forms of a request for /admin that Envoy does not detect as HTTP, refuses, or reads in another way.
func undetected() map[string][]string {
	h2 := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
		"\x00\x00\x29\x01\x05\x00\x00\x00\x01" + "\x82\x86\x04\x06/admin\x41\x08app.test\x0f\x08\x12Bearer aaa.bbb.ccc"
	out := map[string][]string{"h2c in pieces": {h2[:3], h2[3:20], h2[20:30], h2[30:]}}
	for name, text := range map[string]string{
		"HTTP/1.0":             "GET /admin HTTP/1.0\r\n" + forged,
		"HTTP/0.9":             "GET /admin\r\n\r\n",
		"HTTP/1.2":             "GET /admin HTTP/1.2\r\n" + forged,
		"HTTP/3.0":             "GET /admin HTTP/3.0\r\n" + forged,
		"a version in letters": "GET /admin http/1.1\r\n" + forged,
		"a word after it":      "GET /admin HTTP/1.1 x\r\n" + forged,
		"a leading CRLF":       "\r\nGET /admin HTTP/1.1\r\n" + forged,
		"three leading CRLFs":  "\r\n\r\n\r\nGET /admin HTTP/1.1\r\n" + forged,
		"a leading space":      " GET /admin HTTP/1.1\r\n" + forged,
		"two spaces":           "GET  /admin HTTP/1.1\r\n" + forged,
		"tabs":                 "GET\t/admin\tHTTP/1.1\r\n" + forged,
		"LF only":              strings.ReplaceAll("GET /admin HTTP/1.1\r\n"+forged, "\r\n", "\n"),
		"CR only":              strings.ReplaceAll("GET /admin HTTP/1.1\r\n"+forged, "\r\n", "\r") + "\r\n\r\n",
		"UTF-8":                "GET /admin\u00fc HTTP/1.1\r\n" + forged,
		"a NUL":                "GET /admin\x00 HTTP/1.1\r\n" + forged,
		"an unknown method":    "FROB /admin HTTP/1.1\r\n" + forged,
		"small letters":        "get /admin HTTP/1.1\r\n" + forged,
		"a long method":        strings.Repeat("GET", 100) + " /admin HTTP/1.1\r\n" + forged,
		"a long line":          "GET /admin?" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\n" + forged,
		"PROXY 1":              "PROXY TCP4 10.0.0.1 10.0.0.2 4321 80\r\nGET /admin HTTP/1.1\r\n" + forged,
		"PROXY 2":              "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00GET /admin HTTP/1.1\r\n" + forged,
		"h2c without a frame":  "PRI * HTTP/2.0\r\n\r\nGET /admin HTTP/1.1\r\n" + forged,
		"an absolute address":  "GET http://app.test/admin HTTP/1.1\r\n" + forged,
		"bytes":                "\x00\x01\x02 not HTTP at all\r\n\r\n",
	} {
		out[name] = []string{text}
	}
	return out
}

// say writes the parts of a request to a port of the server, waits until the other side is done, and reports whether anything has
// arrived at the program. between is called before the last part.
func (p *peers) say(protocol string, config *tls.Config, parts []string, between func()) (answer string, arrived bool) {
	p.T.Helper()
	before := p.arrived.Load()
	c, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", p.server, p.ports[protocol]), lab.StopLimit)
	p.Check(err)
	defer c.Close()
	p.Check(c.SetDeadline(time.Now().Add(lab.StopLimit)))
	if config != nil {
		c = tls.Client(c, config)
	}
	for i, part := range parts {
		if i == len(parts)-1 {
			between()
		}
		if _, err := io.WriteString(c, part); err != nil {
			break // it is closed already
		}
	}
	for part := make([]byte, 1<<10); !complete(answer) && err == nil; {
		var n int
		n, err = c.Read(part)
		answer += string(part[:n])
	}
	return answer, p.arrived.Load() > before
}

// complete reports whether text has the headers of an answer, in HTTP/1.1 or in HTTP/2 on stream 1: Envoy closes a while later.
func complete(text string) bool {
	return strings.Contains(text, "\r\n\r\n") || strings.Contains(text, "\x01\x04\x00\x00\x00\x01") || strings.Contains(text, "\x01\x05\x00\x00\x00\x01")
}

// heard are the first lines of what arrives at a program.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) some(text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.lines, func(line string) bool { return strings.Contains(line, text) }) {
		return fmt.Errorf("nothing with %q arrives: %.500q", text, h.lines)
	}
	return nil
}

// gulp takes what a client sends first, whatever that is, answers as a server of HTTP/1.1 does, and closes.
func (p *peers) gulp(c net.Conn, at *heard) {
	defer c.Close()
	from := bufio.NewReader(c)
	if _, err := from.Peek(1); err != nil {
		return
	}
	first, _ := from.Peek(from.Buffered())
	at.mu.Lock()
	at.lines = append(at.lines, string(bytes.SplitN(first, []byte("\n"), 2)[0]))
	at.mu.Unlock()
	p.arrived.Add(1)
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nserver")
	c.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, from)
}

// connections is a provider of gRPC that lets in every connection, and no request.
type connections struct {
	authv3.UnimplementedAuthorizationServer
}

func (connections) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	code := codes.OK
	if r.GetAttributes().GetRequest().GetHttp() != nil {
		code = codes.PermissionDenied
	}
	return &authv3.CheckResponse{Status: &statusv3.Status{Code: int32(code)}}, nil
}

// serveGRPC declares that provider under a host.
func (p *peers) serveGRPC(host string) {
	p.T.Helper()
	l, err := net.Listen("tcp", p.Address()+":0")
	p.Check(err)
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, connections{})
	go server.Serve(l)
	p.T.Cleanup(server.Stop)
	at := l.Addr().(*net.TCPAddr)
	p.ServiceOf(host, "GRPC", fmt.Sprintf("{address: %s, ports: {http: %d}}", at.IP, at.Port))
}

// Detection of HTTP is no guard: what Envoy takes for bytes at a port without a declared protocol does not arrive where a policy of HTTP
// keeps out the request that it stands for. Tokens are the exception: bytes have none, so RequestAuthentication does not close the port.
func TestUndetectedRequestsPassNoPolicy(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte("protocolDetectionTimeout: 0.2s\n"+
		"extensionProviders: [{name: away, envoyExtAuthzHttp: {service: away.test, port: 80}}, {name: rpc, envoyExtAuthzGrpc: {service: rpc.test, port: 80}}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	undeclared, declared := &heard{}, &heard{}
	p := newPeersOf(t, func(p *peers) map[string]func(net.Conn) {
		known := func(c net.Conn) { p.gulp(c, declared) }
		return map[string]func(net.Conn){"HTTP": known, "TCP": known, "": func(c net.Conn) { p.gulp(c, undeclared) }}
	}, "--meshConfig", settings)
	client := p.SidecarEnvoyWith("client", "", p.metadata("client", meshClient))
	at := func(protocol, path string) string {
		return fmt.Sprintf("http://app.test:%d%s", p.ports[protocol], path)
	}
	p.ServiceOf("away.test", "HTTP", fmt.Sprintf("{address: %s, ports: {http: %d}}", p.Address(), lab.Port(t)))
	p.serveGRPC("rpc.test")
	own := p.certificate(p.ca.Authority, meshClient, func(*x509.Certificate) {})
	ways := map[string]*tls.Config{"plain": nil, "mutual, as HTTP": meshTLS(own, "istio-http/1.1", "istio", "http/1.1"), "mutual, as bytes": meshTLS(own, "istio")}
	sound := []string{"GET /admin HTTP/1.1\r\n" + forged}
	none := func() {}
	for _, kind := range []struct {
		name, object, spec string
		status             int // of a sound request at the port of HTTP
	}{
		{"CUSTOM", "AuthorizationPolicy guard", "action: CUSTOM\nprovider: {name: away}\nrules: [{to: [{operation: {paths: [/admin*]}}]}]", http.StatusForbidden},
		{"CUSTOM of gRPC", "AuthorizationPolicy guard", "action: CUSTOM\nprovider: {name: rpc}\nrules: [{to: [{operation: {paths: [/admin*]}}]}]", http.StatusForbidden},
		{"DENY", "AuthorizationPolicy guard", "action: DENY\nrules: [{to: [{operation: {paths: [/admin*]}}]}]", http.StatusForbidden},
		{"ALLOW", "AuthorizationPolicy guard", "rules: [{to: [{operation: {paths: [/public]}}]}]", http.StatusForbidden},
		{"requestPrincipals", "AuthorizationPolicy guard", "rules: [{from: [{source: {requestPrincipals: ['*']}}]}]", http.StatusForbidden},
		{"tokens", "RequestAuthentication guard", "jwtRules: [{issuer: one.test, outputPayloadToHeader: x-payload, jwks: '" + someKeys + "'}]", http.StatusUnauthorized},
	} {
		p.Apply(kind.object, kind.spec)
		want := fmt.Sprintf("HTTP/1.1 %d", kind.status)
		p.Check(lab.Eventually(lab.StopLimit, func() error {
			for _, protocol := range []string{"HTTP", ""} {
				if got, arrived := p.say(protocol, nil, sound, none); !strings.HasPrefix(got, want) || arrived {
					return fmt.Errorf("%s, port %q: a sound request is answered %.60q, arrives: %t", kind.name, protocol, got, arrived)
				}
			}
			return nil
		}))
		// A client's sidecar, which detects the request, says so within mutual TLS.
		client.Until(lab.Status(kind.status), at("", "/admin"), "Authorization", "Bearer aaa.bbb.ccc")
		if kind.name == "DENY" || strings.HasPrefix(kind.name, "CUSTOM") {
			client.Until(lab.Status(http.StatusOK), at("", "/b"))
		}
		asked, through, unread := 0, []string{}, false
		for protocol := range p.ports {
			for way, config := range ways {
				if protocol == "HTTP" && way == "mutual, as bytes" {
					config = ways["mutual, as HTTP"]
				}
				as := way
				if as == "mutual, as bytes" && protocol == "" {
					as = "mutual, as HTTP" // the request that a sidecar detects
				}
				_, open := p.say(protocol, ways[as], sound, none)
				for name, parts := range undetected() {
					asked++
					answer, arrived := p.say(protocol, config, parts, none)
					unread = unread || arrived && protocol == "" && name == "bytes"
					if arrived && !open && !(kind.name == "tokens" && protocol == "") {
						through = append(through, fmt.Sprintf("port %q, %s, %s: %.60q", protocol, way, name, answer))
					}
				}
			}
		}
		slow := 0
		for _, cut := range []int{0, 3, len("GET /admin HTTP")} {
			slow++
			given := func() int64 { return p.proxy.Stat(`^listener\..*\.downstream_pre_cx_timeout$`) }
			before := given()
			answer, arrived := p.say("", nil, []string{sound[0][:cut], sound[0][cut:]}, func() {
				p.Check(lab.Eventually(lab.StopLimit, func() error {
					if given() == before {
						return fmt.Errorf("Envoy still waits for the rest of a request")
					}
					return nil
				}))
			})
			if arrived && kind.name != "tokens" {
				through = append(through, fmt.Sprintf("plain, a pause after %d bytes: %.60q", cut, answer))
			}
		}
		if unread != (kind.name == "tokens") {
			t.Errorf("%s: bytes reach the port without a protocol: %t", kind.name, unread)
		}
		slices.Sort(through)
		if len(through) > 0 {
			t.Errorf("%s: of %d requests these arrive:\n%s", kind.name, asked+slow, strings.Join(through, "\n"))
		}
		t.Logf("%s: %d requests, %d slow ones", kind.name, asked, slow)
		p.Check(os.Remove(filepath.Join(p.Config, strings.ToLower(strings.Replace(kind.object, " ", "-", 1))+".yaml")))
	}

	// Envoy's own requests to such a port are marked by no filter: they arrive as bytes, also where the server is the provider itself.
	p.Check(os.WriteFile(settings+"~", []byte(fmt.Sprintf("protocolDetectionTimeout: 0.2s\ndefaultProviders: {tracing: [spans]}\n"+
		"defaultConfig: {tracing: {sampling: 100}}\nextensionProviders:\n"+
		"- {name: own, envoyExtAuthzHttp: {service: app.test, port: %[1]d, pathPrefix: /question}}\n"+
		"- {name: spans, zipkin: {service: app.test, port: %[1]d}}\n", p.ports[""])), 0o644))
	p.Check(os.Rename(settings+"~", settings))
	p.Apply("PeerAuthentication default", "mtls: {mode: STRICT}",
		"AuthorizationPolicy guard", "action: CUSTOM\nprovider: {name: own}\nrules: [{to: [{operation: {paths: [/asked]}}]}]",
		"VirtualService app", fmt.Sprintf("hosts: [app.test]\nhttp: [{match: [{port: %d}], route: [{destination: {host: app.test, port: {number: %d}}}], "+
			"mirror: {host: app.test, port: {number: %d}}}]", p.ports["HTTP"], p.ports["HTTP"], p.ports[""]))
	for what, path := range map[string]string{"POST /api/v2/spans": "/", "GET /question/asked": "/asked", "GET /mirrored": "/mirrored"} {
		p.Check(lab.Eventually(lab.StopLimit, func() error {
			client.Until(lab.Status(http.StatusOK), at("HTTP", path))
			return undeclared.some(what)
		}))
	}
}
