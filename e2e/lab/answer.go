package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

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
