package probe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/internal/local"
)

// Probes are the application's probes, by the path that the injector gave them: /app-health/CONTAINER/livez. The kubelet
// sends them to the agent instead of the application, since it has no certificate that the application's proxy would accept.
type Probes map[string]Probe

// Probe is a probe of the application. Exactly one of the three kinds is set.
type Probe struct {
	HTTPGet   *HTTPGet
	TCPSocket *TCPSocket
	GRPC      *GRPC
	Timeout   time.Duration
	Own       string // the proxy's own address, see Reach; empty for loopback alone
}

// The kinds of probes. A Host is an address of this host; if it is empty, the probe goes to the proxy's own address, or
// to loopback if no program listens there.
type (
	HTTPGet struct {
		Host        string
		Port        Port
		Path        string
		Scheme      string   // HTTP or HTTPS; like the kubelet, the agent does not verify the certificate
		HTTPHeaders []Header // a header named Host sets the request's host
	}
	Header    struct{ Name, Value string }
	TCPSocket struct {
		Host string
		Port Port
	}
	GRPC struct { // grpc.health.v1 over HTTP/2 without TLS
		Port    Port
		Service string
	}
)

// Port is a port number, in JSON a number or a string with a number: the injector has resolved port names.
type Port int

// UnmarshalJSON implements json.Unmarshaler.
func (p *Port) UnmarshalJSON(text []byte) error {
	number, err := strconv.Atoi(strings.Trim(string(text), `"`))
	if err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("port %s: want a number, 1 to 65535", text)
	}
	*p = Port(number)
	return nil
}

const (
	probeTimeout  = time.Second // Kubernetes' default
	longestProbe  = 5 * time.Minute
	defaultScheme = "HTTP"
)

// ParseProbes parses the injector's value of ISTIO_KUBE_APP_PROBERS:
// {"/app-health/NAME/livez":{"httpGet":{"path":"/","port":8080,"scheme":"HTTP","httpHeaders":[]},"timeoutSeconds":1}},
// with tcpSocket {port} or grpc {port, service} instead of httpGet. own are the addresses of this host that a probe may
// name, and first the one for probes that name none; an empty one is none. The error has every fault, each with its path.
func ParseProbes(text string, own []string) (Probes, error) {
	var documents map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &documents); err != nil {
		return nil, fmt.Errorf(`%.100q: want JSON like {"/app-health/NAME/livez":{"httpGet":{"port":8080}}}: %w`, text, err)
	}
	probes := Probes{}
	var faults *multierror.Error
	for _, path := range slices.Sorted(maps.Keys(documents)) {
		probe, err := parseProbe(path, documents[path], own)
		if err != nil {
			faults = multierror.Append(faults, fmt.Errorf("%s: %w", path, err))
			continue
		}
		probes[path] = probe
	}
	return probes, faults.ErrorOrNil()
}

// endpoints are the allowed last parts of a probe's path.
var endpoints = map[string][]string{
	"app-health":    {"livez", "readyz", "startupz"},
	"app-lifecycle": {"prestopz", "poststartz"},
}

// probeDocument is a probe as Kubernetes writes it.
type probeDocument struct {
	HTTPGet        *HTTPGet
	TCPSocket      *TCPSocket
	GRPC           *GRPC
	TimeoutSeconds int
}

var errPath = errors.New("want /app-health/NAME/{livez,readyz,startupz} or /app-lifecycle/NAME/{prestopz,poststartz}")

func parseProbe(path string, text []byte, own []string) (Probe, error) {
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[0] != "" || parts[2] == "" || !slices.Contains(endpoints[parts[1]], parts[3]) {
		return Probe{}, errPath
	}
	var document probeDocument
	if err := json.Unmarshal(text, &document); err != nil {
		return Probe{}, err
	}
	timeout := time.Duration(document.TimeoutSeconds) * time.Second
	p := Probe{HTTPGet: document.HTTPGet, TCPSocket: document.TCPSocket, GRPC: document.GRPC, Timeout: timeout}
	if len(own) > 0 {
		p.Own = own[0]
	}
	if p.Timeout == 0 {
		p.Timeout = probeTimeout
	}
	if p.Timeout < 0 || p.Timeout > longestProbe {
		return Probe{}, fmt.Errorf("timeoutSeconds %d: want 1 to %.0f, or 0 for 1",
			document.TimeoutSeconds, longestProbe.Seconds())
	}
	return p, p.check(own)
}

func (p *Probe) check(own []string) error {
	var ways []string
	var port Port
	var host *string
	if p.HTTPGet != nil {
		ways, port, host = append(ways, "httpGet"), p.HTTPGet.Port, &p.HTTPGet.Host
		p.HTTPGet.Scheme = cmp.Or(p.HTTPGet.Scheme, defaultScheme)
		if scheme := p.HTTPGet.Scheme; scheme != "HTTP" && scheme != "HTTPS" {
			return fmt.Errorf("httpGet.scheme %q: want HTTP or HTTPS", scheme)
		}
		if target, err := url.Parse(p.HTTPGet.Path); err != nil || target.Scheme+target.Host+target.Opaque != "" {
			return fmt.Errorf("httpGet.path %q: want a path such as /healthz, perhaps with a query", p.HTTPGet.Path)
		}
		for _, h := range p.HTTPGet.HTTPHeaders {
			if !isHeader(h) {
				return fmt.Errorf("httpGet.httpHeaders: %q: want a header of HTTP", h.Name)
			}
		}
	}
	if p.TCPSocket != nil {
		ways, port, host = append(ways, "tcpSocket"), p.TCPSocket.Port, &p.TCPSocket.Host
	}
	if p.GRPC != nil {
		ways, port = append(ways, "grpc"), p.GRPC.Port
	}
	switch {
	case len(ways) != 1:
		return fmt.Errorf("has %d of httpGet, tcpSocket and grpc, want one", len(ways))
	case port == 0:
		return fmt.Errorf("%s.port: is missing, want 1 to 65535", ways[0])
	case host != nil && *host != "" && !local.Host(*host) && !slices.Contains(own, *host):
		return fmt.Errorf("%s.host %q: want an address of this host, or none", ways[0], *host)
	}
	return nil
}

// isHeader reports whether a header is valid. It is strict, so that the text of one header cannot become another
// header.
func isHeader(h Header) bool {
	noToken := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	return h.Name != "" && !strings.ContainsFunc(h.Name, noToken) && !strings.ContainsFunc(h.Value, control)
}

// writeGrace is how long the writing of an answer may take beyond the time of the probe.
const writeGrace = 5 * time.Second

// ServeHTTP probes the application and returns the result.
func (p Probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe, known := p[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, r.Method+": want GET", http.StatusMethodNotAllowed)
		return
	case !known:
		http.Error(w, r.URL.Path+": the application has no such probe", http.StatusNotFound)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(probe.Timeout + writeGrace))
	ctx, cancel := context.WithTimeout(r.Context(), probe.Timeout)
	defer cancel()
	code, text, err := probe.ask(ctx, r.UserAgent())
	if err != nil {
		code, text = http.StatusInternalServerError, err.Error()
	}
	http.Error(w, text, code) // a status of 200 too: it writes any as plain text
}

// ask returns the status for the kubelet, and a text that the kubelet may show.
func (p Probe) ask(ctx context.Context, userAgent string) (code int, text string, err error) {
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.ask(ctx, Reach(p.HTTPGet.Host, p.Own), userAgent)
	case p.TCPSocket != nil:
		conn, err := DialFirst(ctx, Reach(p.TCPSocket.Host, p.Own), strconv.Itoa(int(p.TCPSocket.Port)))
		if err != nil {
			return 0, "", err
		}
		return http.StatusOK, "connected", conn.Close()
	}
	return p.GRPC.ask(ctx, Reach("", p.Own))
}

// loopback has the addresses of an application on this host that does not listen on all addresses.
var loopback = []string{"127.0.0.1", "::1"}

// Reach returns the addresses to try for the application. Without a host the proxy's own address is the first, where the kubelet
// would send the probe: many programs listen there only. Loopback follows, for programs that listen only there, behind
// their proxy. own is empty if the proxy's address is not one of this host.
func Reach(host, own string) (addresses []string) {
	switch {
	case host == "localhost":
		return loopback
	case host != "":
		return []string{host}
	case own == "" || slices.Contains(loopback, own):
		return loopback
	}
	return append([]string{own}, loopback...)
}

// sourceOf returns the address from which to connect to an address of this host, nil for any. From 127.0.0.6 and ::6,
// Envoy's own source addresses for inbound traffic, connections to the pod's address are not redirected to Envoy, whose
// listener would want TLS.
func sourceOf(address string) net.Addr {
	to, err := netip.ParseAddr(address)
	switch {
	case err != nil || to.IsLoopback():
		return nil
	case to.Unmap().Is4():
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 6)}
	}
	return &net.TCPAddr{IP: net.ParseIP("::6")}
}

// DialFirst connects to the first address that accepts the connection. An address whose source is missing, as ::6 is on
// hosts without redirection, is tried last, from any source. If none accepts, the error is that of the first one, and
// names the others.
func DialFirst(ctx context.Context, addresses []string, port string) (net.Conn, error) {
	var first error
	var later []string
	for _, address := range addresses {
		conn, err := (&net.Dialer{LocalAddr: sourceOf(address)}).DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, unix.EADDRNOTAVAIL) && sourceOf(address) != nil {
			later = append(later, address)
			continue
		}
		first = cmp.Or(first, err)
	}
	for _, address := range later {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, port))
		if err == nil {
			return conn, nil
		}
		first = cmp.Or(first, err)
	}
	if len(addresses) > 1 {
		first = fmt.Errorf("%w, nor at %s", first, strings.Join(addresses[1:], ", "))
	}
	return nil, first
}
