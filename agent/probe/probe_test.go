package probe

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pilotlight/pilotlight/internal/local"
)

func TestParseProbes(t *testing.T) {
	got, err := ParseProbes(`{
		"/app-health/web/livez": {"httpGet": {"path": "/live?x=1", "port": 8080, "scheme": "HTTPS", "httpHeaders": [{"name": "Host", "value": "web"}]}, "timeoutSeconds": 3},
		"/app-health/web/readyz": {"httpGet": {"port": "8080"}, "periodSeconds": 10},
		"/app-health/db/startupz": {"tcpSocket": {"port": 5432, "host": "10.0.0.1"}},
		"/app-lifecycle/web/prestopz": {"grpc": {"port": 9000, "service": "a.B"}}
	}`, []string{"10.0.0.7", "10.0.0.1"})
	want := Probes{
		"/app-health/web/livez":       {HTTPGet: &HTTPGet{Path: "/live?x=1", Port: 8080, Scheme: "HTTPS", HTTPHeaders: []Header{{"Host", "web"}}}, Timeout: 3 * time.Second, Own: "10.0.0.7"},
		"/app-health/web/readyz":      {HTTPGet: &HTTPGet{Port: 8080, Scheme: "HTTP"}, Timeout: time.Second, Own: "10.0.0.7"},
		"/app-health/db/startupz":     {TCPSocket: &TCPSocket{Port: 5432, Host: "10.0.0.1"}, Timeout: time.Second, Own: "10.0.0.7"},
		"/app-lifecycle/web/prestopz": {GRPC: &GRPC{Port: 9000, Service: "a.B"}, Timeout: time.Second, Own: "10.0.0.7"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// All faults are reported together, each with its path.
func TestParseProbesTellsEveryFault(t *testing.T) {
	faults := map[string]string{ // what a probe is, and what is said of it
		`{}`: "has 0 of httpGet, tcpSocket and grpc, want one",
		`{"httpGet": {"port": 1}, "grpc": {"port": 1}}`: "has 2 of httpGet, tcpSocket and grpc, want one",
		`{"httpGet": {}}`:                                                                "httpGet.port: is missing",
		`{"tcpSocket": {"port": 0}}`:                                                     "port 0: want a number, 1 to 65535",
		`{"grpc": {"port": "http"}}`:                                                     `port "http": want a number`,
		`{"httpGet": {"port": 1, "scheme": "ftp"}}`:                                      `httpGet.scheme "ftp": want HTTP or HTTPS`,
		`{"httpGet": {"port": 1, "path": "//elsewhere/x"}}`:                              `httpGet.path "//elsewhere/x": want a path`,
		`{"httpGet": {"port": 1, "path": "/%zz"}}`:                                       `httpGet.path "/%zz": want a path`,
		`{"httpGet": {"port": 1, "host": "10.9.9.9"}}`:                                   `httpGet.host "10.9.9.9": want an address of this host`,
		`{"httpGet": {"port": 1, "httpHeaders": [{"name": "a b", "value": "c"}]}}`:       `httpGet.httpHeaders: "a b"`,
		`{"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "b\r\nc: d"}]}}`: `httpGet.httpHeaders: "a"`,
		`{"httpGet": {"port": 1}, "timeoutSeconds": -1}`:                                 "timeoutSeconds -1: want 1 to 300",
		`[]`: "json: cannot unmarshal array",
	}
	var entries, want []string
	for text, fault := range faults {
		path := fmt.Sprintf("/app-health/c%d/livez", len(entries))
		entries = append(entries, fmt.Sprintf("%q: %s", path, text))
		want = append(want, path+": "+fault)
	}
	for _, path := range []string{"/livez", "/app-health/a/b/livez", "/app-health//livez", "/app-health/a/prestopz", "app-health/a/livez"} {
		entries = append(entries, fmt.Sprintf(`%q: {"grpc": {"port": 1}}`, path))
		want = append(want, path+": want /app-health/NAME/")
	}
	probes, err := ParseProbes("{"+strings.Join(entries, ",")+`, "/app-health/good/livez": {"grpc": {"port": 1}}}`, nil)
	if len(probes) != 1 || err == nil {
		t.Fatalf("got %v, %v; want the good one, and errors", probes, err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("lacks %q:\n%v", w, err)
		}
	}
	if _, err := ParseProbes("x", nil); err == nil || !strings.Contains(err.Error(), `"x": want JSON like`) {
		t.Errorf("no JSON: %v", err)
	}
}

// FuzzParseProbes: for any text, an accepted probe can be sent, and the error for a refused one names its path.
func FuzzParseProbes(f *testing.F) {
	f.Add(`{"/app-health/a/livez": {"httpGet": {"port": 1, "path": "x", "httpHeaders": [{"name": "a", "value": "b"}]}}}`)
	f.Add(`{"/app-health/a/livez": {"tcpSocket": {"port": "1"}}, "/app-health/b/readyz": {"grpc": {"port": 0}}}`)
	f.Add(`{"/app-health/a/livez": null}`)
	f.Add(`{"/app-health/a/livez": {"httpGet": {"port": 1, "path": "a:b"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		probes, err := ParseProbes(text, nil)
		for path, p := range probes {
			if p.Timeout <= 0 || p.Timeout > longestProbe || !strings.HasPrefix(path, "/app-") {
				t.Errorf("%s: taken as %+v, %v", path, p, err)
			}
			if p.HTTPGet == nil {
				continue
			}
			request, err := p.HTTPGet.request(t.Context(), Reach(p.HTTPGet.Host, p.Own)[0], "")
			if err != nil {
				t.Errorf("%s: taken, and cannot be asked: %v", path, err)
				continue
			}
			if host := request.URL.Hostname(); !local.Host(host) {
				t.Errorf("%s: asks %s", path, request.URL)
			}
		}
	})
}

// answered probes a program and returns what the kubelet sees.
func answered(t *testing.T, p Probe) (int, string) {
	t.Helper()
	if p.Timeout == 0 {
		p.Timeout = 10 * time.Second
	}
	probes := Probes{"/app-health/a/livez": p}
	request := httptest.NewRequest("GET", "/app-health/a/livez", nil)
	request.Header.Set("User-Agent", "kube-probe/1.30")
	recorder := httptest.NewRecorder()
	probes.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

func portOf(address net.Addr) Port { return Port(address.(*net.TCPAddr).Port) }

func TestHTTPProbe(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/asked":
			fmt.Fprintf(w, "%s %s %s %v %s", r.Method, r.Host, r.UserAgent(), r.Header["X-A"], r.URL.RawQuery)
		case "/fails":
			http.Error(w, "database is gone", http.StatusServiceUnavailable)
		case "/within":
			http.Redirect(w, r, "/asked", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/long":
			w.Header().Set("Content-Length", "1000000000")
			io.WriteString(w, strings.Repeat("x", 1<<20))
		case "/hangs":
			<-r.Context().Done()
		case "/script":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<script>")
		}
	}
	plainServer, secure := httptest.NewServer(http.HandlerFunc(answer)), httptest.NewTLSServer(http.HandlerFunc(answer))
	defer plainServer.Close()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, test := range []struct {
		name    string
		probe   HTTPGet
		timeout time.Duration
		code    int
		text    string
	}{
		{"a success", HTTPGet{Path: "/asked"}, 0, 200, "GET 127.0.0.1:"},
		{"a path without its slash", HTTPGet{Path: "asked"}, 0, 200, "GET 127.0.0.1:"},
		{"headers, a host and a query", HTTPGet{Path: "/asked?q=1", HTTPHeaders: []Header{{"Host", "web"}, {"X-A", "1"}, {"x-a", "2"}}}, 0, 200, "GET web kube-probe/1.30 [1 2] q=1"},
		{"a failure, as the application words it", HTTPGet{Path: "/fails"}, 0, 503, "database is gone"},
		{"a redirect within the host is followed", HTTPGet{Path: "/within"}, 0, 200, "GET 127.0.0.1:"},
		{"a redirect away is the answer", HTTPGet{Path: "/away"}, 0, 302, ""},
		{"redirects without an end", HTTPGet{Path: "/loop"}, 0, 500, "stopped after 10 redirects"},
		{"a body without an end", HTTPGet{Path: "/long"}, 0, 200, "xxx"},
		{"no answer in time", HTTPGet{Path: "/hangs"}, 50 * time.Millisecond, 500, "did not answer in time"},
		{"a page is only text", HTTPGet{Path: "/script"}, 0, 200, "<script>"},
		{"HTTPS, with any certificate", HTTPGet{Path: "/asked", Scheme: "HTTPS"}, 0, 200, "GET 127.0.0.1:"},
		{"HTTP to HTTPS", HTTPGet{Path: "/asked", Port: portOf(secure.Listener.Addr())}, 0, 400, "HTTP request to an HTTPS server"},
		{"nobody listens", HTTPGet{Path: "/asked", Port: portOf(closed.Addr())}, 0, 500, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			probe := test.probe
			probe.Scheme = cmp.Or(probe.Scheme, "HTTP")
			switch {
			case probe.Port != 0:
			case probe.Scheme == "HTTPS":
				probe.Port = portOf(secure.Listener.Addr())
			default:
				probe.Port = portOf(plainServer.Listener.Addr())
			}
			code, text := answered(t, Probe{HTTPGet: &probe, Timeout: test.timeout})
			if code != test.code || !strings.Contains(text, test.text) || len(text) > shownProbeBody+100 {
				t.Errorf("got %d %.300q, want %d with %q", code, text, test.code, test.text)
			}
		})
	}
}

// An application that listens on the host's address only is reached where the probe names it.
func TestProbeOfAnAddress(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.77:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := portOf(listener.Addr())
	if code, text := answered(t, Probe{TCPSocket: &TCPSocket{Port: port, Host: "127.0.0.77"}}); code != 200 {
		t.Errorf("at its address: %d %s", code, text)
	}
	if code, text := answered(t, Probe{TCPSocket: &TCPSocket{Port: port}, Own: "127.0.0.77"}); code != 200 {
		t.Errorf("at the proxy's address: %d %s", code, text)
	}
	if code, text := answered(t, Probe{TCPSocket: &TCPSocket{Port: port}, Own: "127.0.0.78"}); code != 500 || !strings.Contains(text, "127.0.0.78:") || !strings.Contains(text, "nor at 127.0.0.1, ::1") {
		t.Errorf("at another: %d %s", code, text)
	}
	if code, text := answered(t, Probe{TCPSocket: &TCPSocket{Port: port}}); code != 500 || !strings.Contains(text, "connection refused") {
		t.Errorf("at loopback: %d %s", code, text)
	}
}

// Each kind of probe reaches a program that listens on the proxy's address alone, and one that listens on loopback alone.
func TestProbesReachTheApplication(t *testing.T) {
	for _, address := range []string{"127.0.0.77", "127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })}
		go server.Serve(listener)
		defer server.Close()
		other, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		rpc := grpc.NewServer()
		healthpb.RegisterHealthServer(rpc, grpchealth.NewServer())
		go rpc.Serve(other)
		defer rpc.Stop()
		port := portOf(listener.Addr())
		for _, p := range []Probe{
			{HTTPGet: &HTTPGet{Port: port, Scheme: "HTTP", Path: "/"}}, {TCPSocket: &TCPSocket{Port: port}}, {GRPC: &GRPC{Port: portOf(other.Addr())}},
		} {
			p.Own = "127.0.0.77"
			if code, text := answered(t, p); code != 200 || p.HTTPGet != nil && !strings.HasPrefix(text, "127.0.0.77:") {
				t.Errorf("%+v of a program at %s: %d %s", p, address, code, text)
			}
		}
	}
}

func TestSourceOf(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "", "127.0.0.77": "", "::1": "", "localhost": "",
		"10.1.2.3": "127.0.0.6:0", "::ffff:10.1.2.3": "127.0.0.6:0", "fd00::1": "[::6]:0",
	} {
		got := ""
		if source := sourceOf(address); source != nil {
			got = source.String()
		}
		if got != want {
			t.Errorf("%s: from %q, want %q", address, got, want)
		}
	}
}

func TestProbesThatAreNone(t *testing.T) {
	got := httptest.NewRecorder()
	Probes{}.ServeHTTP(got, httptest.NewRequest("GET", "/app-health/other/livez", nil))
	if got.Code != 404 {
		t.Errorf("an unknown one: %d", got.Code)
	}
	recorder := httptest.NewRecorder()
	Probes{}.ServeHTTP(recorder, httptest.NewRequest("POST", "/app-health/a/livez", nil))
	if recorder.Code != 405 {
		t.Errorf("a POST: %d", recorder.Code)
	}
}

// The other side is grpc-go itself.
func TestGRPCProbe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := grpchealth.NewServer()
	service.SetServingStatus("a.B", healthpb.HealthCheckResponse_SERVING)
	service.SetServingStatus("a.Down", healthpb.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, service)
	go server.Serve(listener)
	defer server.Stop()

	without, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bare := grpc.NewServer()
	go bare.Serve(without)
	defer bare.Stop()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel only
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	for _, test := range []struct {
		name    string
		at      net.Addr
		service string
		timeout time.Duration
		code    int
		text    string
	}{
		{"the server as a whole", listener.Addr(), "", 0, 200, "SERVING"},
		{"a service", listener.Addr(), "a.B", 0, 200, "SERVING"},
		{"a service that is down", listener.Addr(), "a.Down", 0, 503, "NOT_SERVING"},
		{"a service that it does not know", listener.Addr(), "a.C", 0, 500, `does not know service "a.C"`},
		{"no health service", without.Addr(), "", 0, 500, "has no grpc.health.v1.Health"},
		{"no HTTP/2", web.Listener.Addr(), "", 0, 500, ""},
		{"no answer", silent.Addr(), "", 100 * time.Millisecond, 500, "did not answer in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, text := answered(t, Probe{GRPC: &GRPC{Port: portOf(test.at), Service: test.service}, Timeout: test.timeout})
			if code != test.code || !strings.Contains(text, test.text) {
				t.Errorf("got %d %q, want %d with %q", code, text, test.code, test.text)
			}
		})
	}
}

func TestHealthMessages(t *testing.T) {
	if got, want := hex.EncodeToString(healthRequest("a.B")), "00000000050a03612e42"; got != want {
		t.Errorf("request: got %s, want %s", got, want)
	}
	for text, want := range map[string]string{
		"0000000000":         "UNKNOWN", // an empty message: the status has its default
		"00000000020801":     "SERVING",
		"00000000020803":     "SERVICE_UNKNOWN",
		"00000000020809":     "is none of a HealthCheckResponse",
		"000000000208":       "not one message",
		"01000000020801":     "not compressed",
		"00000000030a0161":   "field 1 is none",
		"000000000108":       "cut short",
		"ffffffffffffffffff": "not one message",
		"":                   "not one message",
	} {
		frame, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := healthStatus(frame)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func FuzzHealthStatus(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 8, 1})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if status, err := healthStatus(frame); (status == "") == (err == nil) {
			t.Errorf("%x: %q, %v", frame, status, err)
		}
	})
}
