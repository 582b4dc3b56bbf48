package metrics

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/probe"
)

// Application is the address of the workload's own metrics, on this host.
type Application struct {
	Port int
	Path string // begins with a slash; may have a query
	Own  string // the proxy's own address, see probe.Reach; empty for loopback alone
}

// ParseApplication reads the workload's annotations prometheus.io/scrape, port and path, as the injector writes them:
// {"scrape":"true","path":"/metrics","port":"8080"}. It is nil if the workload is not to be scraped. own is the port of
// the status server, which must not scrape itself.
func ParseApplication(annotations string, own int, address string) (*Application, error) {
	var a struct{ Scrape, Path, Port string }
	if err := json.Unmarshal([]byte(annotations), &a); err != nil {
		const example = `{"scrape":"true","path":"/metrics","port":"8080"}`
		return nil, fmt.Errorf("%.100q: want JSON like %s: %w", annotations, example, err)
	}
	if a.Scrape != "true" {
		return nil, nil
	}
	port, err := strconv.Atoi(cmp.Or(a.Port, "80"))
	path := cmp.Or(a.Path, "/metrics")
	switch {
	case err != nil || port < 1 || port > 65535:
		return nil, fmt.Errorf("port %q: want 1 to 65535", a.Port)
	case port == own:
		return nil, fmt.Errorf("port %d: is the agent's own --statusPort, want the application's", port)
	case !strings.HasPrefix(path, "/"):
		return nil, fmt.Errorf("path %q: want one that begins with /", path)
	}
	return &Application{port, path, address}, nil
}

// scrape requests the metrics in the text format. It follows no redirect and keeps no connection.
func (a *Application) scrape(ctx context.Context, userAgent string) (*http.Response, error) {
	address := "http://" + net.JoinHostPort("localhost", strconv.Itoa(a.Port)) + a.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1")
	request.Header.Set("Accept-Encoding", "identity")
	if userAgent != "" {
		request.Header.Set("User-Agent", userAgent)
	}
	if deadline, ok := ctx.Deadline(); ok {
		request.Header.Set(timeoutHeader, strconv.FormatFloat(time.Until(deadline).Seconds(), 'f', 3, 64))
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, ReadBufferSize: 16 << 10,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return probe.DialFirst(ctx, probe.Reach("", a.Own), port)
		},
	}
	return transport.RoundTrip(request)
}
