package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"
)

// fresh is a client that uses a new connection for each request, as load balancers and operators do.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: requestTimeout}

const requestTimeout = 5 * time.Second

// Get returns the body of a 200; any other status is an error that shows the body.
func Get(url string) (string, error) { return get(fresh, url) }

// GetThrough is Get through an HTTP proxy at host:port, with headers given as pairs of name and value.
func GetThrough(proxy, target string, header ...string) (string, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}),
	}
	return get(&http.Client{Transport: transport, Timeout: requestTimeout}, target, header...)
}

func get(client *http.Client, url string, header ...string) (string, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %.300s", url, response.Status, body)
	}
	return string(body), nil
}

// OverUnix returns a client of the server at a Unix socket, with a new connection for each request to the first socket that
// matches the pattern: the agent draws the names of its sockets.
func OverUnix(pattern string) *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			found, err := filepath.Glob(pattern)
			if err != nil || len(found) == 0 {
				return nil, fmt.Errorf("connect to %s: %w", pattern, cmp.Or(err, fs.ErrNotExist))
			}
			var d net.Dialer
			return d.DialContext(ctx, "unix", found[0])
		},
	}}
}

// ClientTo returns a client that connects to address for every URL.
func ClientTo(address string, config *tls.Config) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: config,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
}

// Stats returns Envoy's counters and gauges whose name a regular expression matches.
func Stats(admin, filter string) (map[string]int64, error) { return stats(fresh, admin, filter) }

func stats(client *http.Client, admin, filter string) (map[string]int64, error) {
	body, err := get(client, "http://"+admin+"/stats?format=json&filter="+url.QueryEscape(filter))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Stats []struct {
			Name  string
			Value *int64
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return nil, fmt.Errorf("parse stats of %s: %w", admin, err)
	}
	out := map[string]int64{}
	for _, s := range answer.Stats {
		if s.Value != nil {
			out[s.Name] = *s.Value
		}
	}
	return out, nil
}

// Answer is an HTTP answer, as a client received it.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Echo   Echo
	Took   time.Duration
}

// Get sends one request through the sidecar's HTTP proxy; headers are pairs of name and value.
func (p *Proxy) Get(target string, header ...string) (Answer, error) {
	return p.Do(http.MethodGet, target, header...)
}

// Do is Get with another method.
func (p *Proxy) Do(method, target string, header ...string) (Answer, error) {
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.HTTP}),
		},
	}
	return Exchange(client, method, target, header...)
}

// Exchange sends one request through a client, and follows no redirection.
func Exchange(client *http.Client, method, target string, header ...string) (Answer, error) {
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequest(method, target, nil)
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a := Answer{Status: response.StatusCode, Header: response.Header, Body: string(body), Took: time.Since(began)}
	_ = json.Unmarshal(body, &a.Echo) // an answer of the proxy itself is not JSON
	return a, err
}

// Until sends requests until the answer is as wanted: applied configuration takes a moment to arrive.
func (p *Proxy) Until(want func(Answer) error, target string, header ...string) Answer {
	p.W.T.Helper()
	var last Answer
	err := Eventually(StopLimit, func() (err error) {
		if last, err = p.Get(target, header...); err != nil {
			return err
		}
		return want(last)
	})
	if err != nil {
		p.W.T.Fatalf("%s: %v; discovery says:\n%s", target, err, p.W.Discovery.Log())
	}
	return last
}

// Status returns a check that an answer has this status.
func Status(want int) func(Answer) error {
	return func(a Answer) error {
		if a.Status != want {
			return fmt.Errorf("status %d, want %d: %.200s", a.Status, want, a.Body)
		}
		return nil
	}
}

// From returns a check that an answer is from this backend.
func From(backend string) func(Answer) error {
	return func(a Answer) error {
		if a.Echo.Backend != backend {
			return fmt.Errorf("answered by %q with %d, want %s: %.200s", a.Echo.Backend, a.Status, backend, a.Body)
		}
		return nil
	}
}

// Await sends requests through a client until the answer is as wanted.
func (w *World) Await(client *http.Client, target string, want func(Answer) error) Answer {
	w.T.Helper()
	var last Answer
	if err := Eventually(StopLimit, func() (err error) {
		if last, err = Exchange(client, http.MethodGet, target); err != nil {
			return err
		}
		return want(last)
	}); err != nil {
		w.T.Fatalf("%s: %v; discovery says:\n%s", target, err, w.Discovery.Log())
	}
	return last
}
