package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

//go:embed page.html
var pageHTML string

// userCookie remembers who signed in. Anybody may be anybody: it shows routing by user, not security.
const userCookie = "user"

// product is everything that the page shows, and the JSON API's answer.
type product struct {
	ID           int      `json:"id"`
	User         string   `json:"user,omitempty"`
	Details      *details `json:"details,omitempty"`
	DetailsError *failure `json:"detailsError,omitempty"`
	Reviews      *reviews `json:"reviews,omitempty"`
	ReviewsError *failure `json:"reviewsError,omitempty"`
}

// complete reports whether every upstream answered.
func (p product) complete() bool {
	return p.DetailsError == nil && p.ReviewsError == nil && (p.Reviews == nil || p.Reviews.RatingsError == nil)
}

type productPage struct {
	up   *upstream
	page *template.Template
}

func newProductPage(up *upstream) productPage {
	stars := func(n int) string { return strings.Repeat("★", n) + strings.Repeat("☆", max(0, 5-n)) }
	page := template.Must(template.New("page").Funcs(template.FuncMap{"stars": stars}).Parse(pageHTML))
	return productPage{up: up, page: page}
}

func (s productPage) register(mux *http.ServeMux) {
	mux.Handle("GET /{$}", http.RedirectHandler("/productpage", http.StatusFound))
	mux.HandleFunc("GET /productpage", s.serveHTML)
	mux.HandleFunc("GET /api/v1/products/0", s.serveJSON)
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) { signIn(w, r, r.FormValue("user")) })
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) { signIn(w, r, "") })
}

// serveHTML answers 200 whatever the upstreams do: a page with a hole is better than none.
func (s productPage) serveHTML(w http.ResponseWriter, r *http.Request) {
	p := s.product(r)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = s.page.Execute(w, p) // fails only when the client has gone
}

// serveJSON answers 502 when an upstream failed, so that a client need not look inside to count.
func (s productPage) serveJSON(w http.ResponseWriter, r *http.Request) {
	p := s.product(r)
	status := http.StatusOK
	if !p.complete() {
		status = http.StatusBadGateway
	}
	writeJSON(w, status, p)
}

// product asks both upstreams at once, as the user who signed in.
func (s productPage) product(r *http.Request) product {
	p := product{User: r.Header.Get("End-User")}
	if cookie, err := r.Cookie(userCookie); p.User == "" && err == nil {
		p.User = cookie.Value
		r = r.Clone(r.Context())
		r.Header.Set("End-User", p.User)
	}
	var about details
	var said reviews
	var both sync.WaitGroup
	both.Go(func() { p.DetailsError = s.up.fetch(r, "details", "/details/0", &about) })
	both.Go(func() { p.ReviewsError = s.up.fetch(r, "reviews", "/reviews/0", &said) })
	both.Wait()
	if p.DetailsError == nil {
		p.Details = &about
	}
	if p.ReviewsError == nil {
		p.Reviews = &said
	}
	return p
}

// signIn remembers user, or forgets the last one, and shows the page again.
func signIn(w http.ResponseWriter, r *http.Request, user string) {
	cookie := &http.Cookie{Name: userCookie, Value: user, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if user == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/productpage", http.StatusSeeOther)
}

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
