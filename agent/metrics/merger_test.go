package metrics

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// transport is an Envoy's admin as a function.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// configOf returns a Config of an agent that is ready, and has no Envoy and no application yet.
func configOf() Config {
	return Config{
		Envoy: func() http.RoundTripper { return nil },
		Agent: func(to io.Writer, _ time.Time) {
			w := NewWriter(to)
			w.Metric("ready", "gauge", "Whether a proxy serves and shall get work.", Number(true))
			w.Metric("resident_memory_bytes", "gauge", "Of the agent itself.", 12<<20)
			w.Flush()
		},
		Log: slog.New(slog.DiscardHandler),
	}
}

// answering is an Envoy whose admin answers so.
func answering(kind, text string) http.RoundTripper {
	return transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text))}, nil
	})
}

// application is a program that answers so on its port of 127.0.0.1.
func application(t *testing.T, answer http.HandlerFunc) *Application {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return &Application{Port: server.Listener.Addr().(*net.TCPAddr).Port, Path: "/metrics"}
}

const (
	fromEnvoy       = "# TYPE envoy_up gauge\nenvoy_up 1\n"
	fromApplication = "# TYPE app_requests counter\napp_requests 7\n"
)

// Each source is in the answer regardless of the others, and missing sources are reported.
func TestMerge(t *testing.T) {
	up := func(source string, up int) string {
		return fmt.Sprintf("metrics_source_up{source=%q} %d\n", source, up)
	}
	failed := func(source, reason string) string {
		return fmt.Sprintf("pilotlight_agent_metrics_source_failures_total{source=%q,reason=%q} 1\n", source, reason)
	}
	say := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, text)
		}
	}
	good := answering("text/plain; charset=UTF-8", fromEnvoy)
	for _, test := range []struct {
		name        string
		envoy       http.RoundTripper
		application http.HandlerFunc
		want        []string
		never       string
	}{
		{
			"all", good, say(TextFormat, fromApplication),
			[]string{fromEnvoy, fromApplication, up("envoy", 1), up("application", 1), "pilotlight_agent_ready 1\n"},
			"failures_total{",
		},
		{"no Envoy runs", nil, say(TextFormat, fromApplication), []string{fromApplication, up("envoy", 0), failed("envoy", "absent")}, ""},
		{"Envoy refuses", transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Status: "503", Body: http.NoBody}, nil
		}), say(TextFormat, fromApplication), []string{fromApplication, up("envoy", 0), failed("envoy", "status")}, ""},
		{"OpenMetrics ends with EOF", good, say("application/openmetrics-text; version=1.0.0", "# TYPE app_requests counter\napp_requests_total 7\n# EOF\n"), []string{
			fromEnvoy, "# TYPE app_requests_total counter\napp_requests_total 7\n", up("application", 1),
		}, "# EOF"},
		{"a page instead", good, say("text/html", "<html>"), []string{fromEnvoy, up("application", 0), failed("application", "content_type")}, "<html>"},
		{"a page that says it is text", good, say("text/plain", "<html>\nok 1\n"), []string{
			fromEnvoy, "ok 1\n", up("application", 1), `dropped_lines{source="application"} 1`,
		}, "<html>"},
		{"an error", good, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, []string{
			fromEnvoy, up("application", 0), failed("application", "status"),
		}, ""},
		{"a redirect is not followed", good, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, []string{
			fromEnvoy, failed("application", "status"),
		}, ""},
		{"compressed, unasked", good, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte{0x1f, 0x8b})
		}, []string{fromEnvoy, failed("application", "encoding")}, ""},
		{"cut short in a line", good, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "app_a 1\napp_b 22")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, []string{fromEnvoy, "app_a 1\n", up("application", 0), failed("application", "cut_short")}, "app_b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := configOf()
			c.Envoy = func() http.RoundTripper { return test.envoy }
			c.Application = application(t, test.application)
			answer := httptest.NewRecorder()
			Handler(c).ServeHTTP(answer, httptest.NewRequest("GET", "/stats/prometheus", nil))
			text := answer.Body.String()
			for _, want := range append(test.want, "pilotlight_agent_resident_memory_bytes 12582912\n") {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			if test.never != "" && strings.Contains(text, test.never) {
				t.Errorf("has %q:\n%s", test.never, text)
			}
			if answer.Code != 200 || answer.Header().Get("Content-Type") != TextFormat {
				t.Errorf("got %d, %v", answer.Code, answer.Header())
			}
			parses(t, text)
		})
	}
}

func TestMergeAsksAsItShould(t *testing.T) {
	c := configOf()
	var envoy string
	c.Envoy = func() http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) { envoy = r.URL.String(); return nil, io.EOF })
	}
	var asked *http.Request
	c.Application = application(t, func(_ http.ResponseWriter, r *http.Request) { asked = r })
	c.Application.Path = "/metrics?x=1"
	request := httptest.NewRequest("GET", "/stats/prometheus?usedonly&filter=a.b&format=json", nil)
	request.Header.Set("User-Agent", "Prometheus/3")
	Handler(c).ServeHTTP(httptest.NewRecorder(), request)
	if want := "http://envoy/stats/prometheus?filter=a.b&usedonly="; envoy != want {
		t.Errorf("Envoy is asked %s, want %s", envoy, want)
	}
	if asked.URL.String() != "/metrics?x=1" || asked.Header.Get("Accept-Encoding") != "identity" || asked.UserAgent() != "Prometheus/3" ||
		!strings.HasPrefix(asked.Header.Get("Accept"), "text/plain;version=0.0.4") || !asked.Close {
		t.Errorf("the application is asked %s with %v", asked.URL, asked.Header)
	}
	envoy = ""
	head := httptest.NewRecorder()
	Handler(c).ServeHTTP(head, httptest.NewRequest("HEAD", "/stats/prometheus", nil))
	if head.Body.Len() > 0 || envoy != "" {
		t.Error("HEAD makes Envoy work")
	}
}

// hanging does not answer until the request is canceled.
func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// If Envoy hangs, the application still has its share of the time, and the scraper receives an answer in time.
func TestMergeHasTimeForAll(t *testing.T) {
	for header, want := range map[string]time.Duration{"": 9500 * time.Millisecond, "20": 19 * time.Second, "0.5": 475 * time.Millisecond, "1e9": 57 * time.Second, "nonsense": 9500 * time.Millisecond} {
		if got := timeoutOf(header); got != want {
			t.Errorf("timeout %q: got %s, want %s", header, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := configOf()
		c.Envoy = func() http.RoundTripper { return transport(hanging) }
		began := time.Now()
		request := httptest.NewRequest("GET", "/stats/prometheus", nil)
		request.Header.Set(timeoutHeader, "20")
		recorder := httptest.NewRecorder()
		Handler(c).ServeHTTP(recorder, request)
		if took := time.Since(began); took.Round(time.Millisecond) != 11400*time.Millisecond {
			t.Errorf("took %s, want Envoy's share of 20 s", took)
		}
		for _, want := range []string{`source="envoy",reason="timeout"} 1`, "pilotlight_agent_ready 1\n"} {
			if !strings.Contains(recorder.Body.String(), want) {
				t.Errorf("lacks %q:\n%s", want, recorder.Body)
			}
		}
		<-time.After(EnvoyTimeout) // until then Envoy may answer
	})
}

// Many scrapes at once: two run, four wait, the others are refused.
func TestScrapeStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configOf()
		var asked atomic.Int64
		c.Envoy = func() http.RoundTripper {
			asked.Add(1)
			return transport(hanging)
		}
		handler := Handler(c)
		codes := make(chan int)
		for range 50 {
			go func() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/stats/prometheus", nil))
				codes <- recorder.Code
			}()
		}
		synctest.Wait()
		if n := asked.Load(); n != scrapesAtOnce {
			t.Errorf("%d ask Envoy at once, want %d", n, scrapesAtOnce)
		}
		count := map[int]int{}
		for range 50 {
			count[<-codes]++
		}
		if refused := 50 - scrapesAtOnce - scrapesWaiting; count[503] < refused || count[200] < scrapesAtOnce || count[200]+count[503] != 50 {
			t.Errorf("answers %v, want %d refused at once", count, refused)
		}
		<-time.After(EnvoyTimeout)
	})
}

// Scrapers that never read, from one address, do not keep those of another one away.
func TestScrapersThatDoNotRead(t *testing.T) {
	c := configOf()
	piece := strings.Repeat("envoy_cluster_upstream_rq_total{cluster=\"outbound|80||reviews\"} 12345\n", 1000)
	c.Envoy = func() http.RoundTripper {
		readers := []io.Reader{strings.NewReader("# TYPE envoy_cluster_upstream_rq_total counter\n")}
		for range 300 { // more than the kernel holds for a connection
			readers = append(readers, strings.NewReader(piece))
		}
		return transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(readers...)), Header: http.Header{}}, nil
		})
	}
	server := &http.Server{Handler: Handler(c)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Close()
	ask := func(from string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", listener.Addr().String())
		if err == nil {
			_, err = io.WriteString(conn, "GET /stats/prometheus HTTP/1.1\r\nHost: localhost\r\n"+timeoutHeader+": 60\r\n\r\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	var mute []net.Conn
	for range 20 {
		mute = append(mute, ask("127.0.0.2"))
	}
	_, _ = mute[0].Read(make([]byte, 1)) // it runs, or was refused
	response, err := http.ReadResponse(bufio.NewReader(ask("127.0.0.3")), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the reader gets %+v, %v", response, err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), "pilotlight_agent_ready 1\n") {
		t.Errorf("the reader gets %d bytes, %v", len(body), err)
	}
}

// Envoy makes an answer also for scrapers that have left: no more of them wait in its queue than scrape at once.
func TestScrapersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configOf()
		var asked atomic.Int32
		answer := make(chan struct{})
		c.Envoy = func() http.RoundTripper {
			return transport(func(*http.Request) (*http.Response, error) {
				asked.Add(1)
				<-answer
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
			})
		}
		handler := Handler(c)
		scrape := func() string {
			request := httptest.NewRequest(http.MethodGet, "/stats/prometheus", nil)
			request.Header.Set(timeoutHeader, "0.05")
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			return recorder.Body.String()
		}
		for range 20 {
			scrape()
		}
		if n := asked.Load(); n != scrapesAtOnce {
			t.Errorf("Envoy has %d requests to answer, want %d", n, scrapesAtOnce)
		}
		close(answer)
		synctest.Wait()
		if text := scrape(); asked.Load() != scrapesAtOnce+1 || !strings.Contains(text, "pilotlight_agent_ready 1\n") {
			t.Errorf("after its answers it has had %d requests: %s", asked.Load(), text)
		}
	})
}

// Envoy's statistics are never in memory as a whole.
func TestMergeStreams(t *testing.T) {
	const families, size = 2_000, 14 << 20
	piece := strings.Repeat("envoy_cluster_upstream_rq_total{cluster=\"outbound|80||reviews.default.svc.cluster.local\"} 12345\n", size/families/100)
	c := configOf()
	c.Envoy = func() http.RoundTripper {
		var readers []io.Reader
		for i := range families {
			readers = append(readers, strings.NewReader(fmt.Sprintf("# TYPE envoy_family_%d counter\n", i)), strings.NewReader(piece))
		}
		return transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(readers...)), Header: http.Header{}}, nil
		})
	}
	server := httptest.NewServer(Handler(c))
	defer server.Close()
	scrape := func() (n int64) {
		response, err := http.Get(server.URL + "/stats/prometheus")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if n, err = io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return n
	}
	scrape()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := scrape()
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d bytes were streamed, %d were allocated, of which %d for the test's own readers", n, allocated, families*200)
	if n < size*9/10 || allocated > size/4 {
		t.Errorf("%d bytes were allocated to stream %d", allocated, n)
	}
}

// A program that listens on the proxy's address alone is scraped, and one that listens on loopback alone.
func TestScrapesReachTheApplication(t *testing.T) {
	for _, address := range []string{"127.0.0.77", "127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })}
		go server.Serve(listener)
		defer server.Close()
		port := listener.Addr().(*net.TCPAddr).Port
		scraped := &Application{Port: port, Path: "/metrics", Own: "127.0.0.77"}
		response, err := scraped.scrape(t.Context(), "")
		if err != nil {
			t.Errorf("metrics of a program at %s: %v", address, err)
			continue
		}
		response.Body.Close()
	}
}

func TestParseApplication(t *testing.T) {
	for _, test := range []struct {
		text, want string // an error's text, or %v of what was read
	}{
		{`{"scrape":"true","path":"/stats?x=1","port":"8080"}`, "&{8080 /stats?x=1 10.0.0.1}"},
		{`{"scrape":"true","path":"","port":""}`, "&{80 /metrics 10.0.0.1}"},
		{`{"scrape":"false","path":"x","port":"y"}`, "<nil>"},
		{`{}`, "<nil>"},
		{`{"scrape":"true","port":"15020"}`, "port 15020: is the agent's own --statusPort"},
		{`{"scrape":"true","port":"http"}`, `port "http": want 1 to 65535`},
		{`{"scrape":"true","port":"65536"}`, `port "65536": want 1 to 65535`},
		{`{"scrape":"true","path":"http://x/"}`, `path "http://x/": want one that begins with /`},
		{`scrape=true`, `"scrape=true": want JSON like {"scrape":"true"`},
	} {
		got, err := ParseApplication(test.text, 15020, "10.0.0.1")
		if err != nil && strings.Contains(err.Error(), test.want) {
			continue
		}
		if text := fmt.Sprintf("%v", got); err != nil || text != test.want {
			t.Errorf("%s: got %s, %v; want %s", test.text, text, err, test.want)
		}
	}
}
