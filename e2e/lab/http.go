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
