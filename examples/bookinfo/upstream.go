package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// forwarded are the headers that belong to a request rather than to a hop. Every call that a service makes for a
// request carries them on, or routes by user and traces end at the first service.
var forwarded = []string{
	"End-User", "X-Request-Id", "Traceparent", "Tracestate",
	"B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags",
}

// upstream calls the other services.
type upstream struct {
	client *http.Client
	domain string // after the names of the services, "" for none
}

// newUpstream calls through the proxy that proxy names for a request, nil for none.
func newUpstream(proxy func(*http.Request) (*url.URL, error)) *upstream {
	return &upstream{client: &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{Proxy: proxy, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second},
	}}
}

// failure is what a caller shows in place of an answer.
type failure struct {
	Status int    `json:"status"` // the upstream's, 0 where there was no answer
	Text   string `json:"error"`
}

// fetch decodes the JSON that a service answers at a path into value, on behalf of the request r.
func (u *upstream) fetch(r *http.Request, service, path string, value any) *failure {
	if u.domain != "" {
		service += "." + u.domain
	}
	url := "http://" + service + ":9080" + path
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
	if err != nil {
		return &failure{Text: err.Error()}
	}
	for _, name := range forwarded {
		if values := r.Header[name]; len(values) > 0 {
			request.Header[name] = values
		}
	}
	response, err := u.client.Do(request)
	if err != nil {
		return &failure{Text: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return &failure{response.StatusCode, fmt.Sprintf("read %s: %v", url, err)}
	case response.StatusCode != http.StatusOK:
		text := fmt.Sprintf("%s answered %s: %.200s", url, response.Status, strings.TrimSpace(string(body)))
		return &failure{response.StatusCode, text}
	}
	if err := json.Unmarshal(body, value); err != nil {
		return &failure{response.StatusCode, fmt.Sprintf("decode %s: %v", url, err)}
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // fails only when the client has gone
}
