package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// answer is what a client saw.
type answer struct {
	status int
	header http.Header
	body   string
	echo   echo
	took   time.Duration
}

// get sends one request through the sidecar's HTTP proxy; headers are pairs of name and value.
func (p *proxy) get(target string, header ...string) (answer, error) {
	return p.do(http.MethodGet, target, header...)
}

func (p *proxy) do(method, target string, header ...string) (answer, error) {
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.http}),
		},
	}
	return exchange(client, method, target, header...)
}

func exchange(client *http.Client, method, target string, header ...string) (answer, error) {
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequest(method, target, nil)
	if err != nil {
		return answer{}, err
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
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, body: string(body), took: time.Since(began)}
	_ = json.Unmarshal(body, &a.echo) // what a proxy answers itself is not JSON
	return a, err
}

// until asks until the answer is as wanted: what was applied arrives within a moment.
func (p *proxy) until(want func(answer) error, target string, header ...string) answer {
	p.w.t.Helper()
	var last answer
	err := lab.Eventually(stopLimit, func() (err error) {
		if last, err = p.get(target, header...); err != nil {
			return err
		}
		return want(last)
	})
	if err != nil {
		p.w.t.Fatalf("%s: %v; discovery says:\n%s", target, err, p.w.discovery.Log())
	}
	return last
}

func status(want int) func(answer) error {
	return func(a answer) error {
		if a.status != want {
			return fmt.Errorf("status %d, want %d: %.200s", a.status, want, a.body)
		}
		return nil
	}
}

func from(backend string) func(answer) error {
	return func(a answer) error {
		if a.echo.Backend != backend {
			return fmt.Errorf("answered by %q with %d, want %s: %.200s", a.echo.Backend, a.status, backend, a.body)
		}
		return nil
	}
}

// await asks through a client until the answer is as wanted.
func (w *world) await(client *http.Client, target string, want func(answer) error) answer {
	w.t.Helper()
	var last answer
	if err := lab.Eventually(stopLimit, func() (err error) {
		if last, err = exchange(client, http.MethodGet, target); err != nil {
			return err
		}
		return want(last)
	}); err != nil {
		w.t.Fatalf("%s: %v; discovery says:\n%s", target, err, w.discovery.Log())
	}
	return last
}
