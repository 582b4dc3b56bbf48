package lab

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Each condition of a test applies to its own answer only, and a redirection is an answer.
func TestExchange(t *testing.T) {
	b := &Backend{Name: "v1", IP: "127.0.0.1", Port: 80}
	b.Status.Store(http.StatusTeapot)
	backend := httptest.NewServer(b)
	defer backend.Close()
	away := httptest.NewServer(http.RedirectHandler(backend.URL, http.StatusFound))
	defer away.Close()

	a, err := Exchange(http.DefaultClient, http.MethodGet, backend.URL+"/path?q=1", "Host", "app.test", "x-a", "1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Echo.Host != "app.test" || a.Echo.Path != "/path?q=1" || a.Echo.Header.Get("x-a") != "1" || b.Requests.Load() != 1 {
		t.Errorf("the backend got %+v", a.Echo)
	}
	redirected, err := Exchange(&http.Client{}, http.MethodGet, away.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		got  error
		well bool
	}{
		"its status":      {Status(http.StatusTeapot)(a), true},
		"another status":  {Status(http.StatusOK)(a), false},
		"its backend":     {From("v1")(a), true},
		"another backend": {From("v2")(a), false},
		"a redirection":   {Status(http.StatusFound)(redirected), true},
	} {
		if (test.got == nil) != test.well {
			t.Errorf("%s: %v", name, test.got)
		}
	}
	if got := b.Endpoint(", weight: 1"); got != "{address: 127.0.0.1, ports: {http: 80}, labels: {version: v1}, weight: 1}" {
		t.Errorf("the endpoint is %s", got)
	}
}
