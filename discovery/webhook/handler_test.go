package webhook

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u1", "name": "web", "namespace": "shop"}}`

func handler() (*Handler, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return NewHandler(map[string]Review{
		"/inject": func(_ context.Context, r *kube.AdmissionRequest) *kube.AdmissionResponse {
			return &kube.AdmissionResponse{Allowed: r.Name == "web", Warnings: []string{"of " + r.Namespace}}
		},
		"/panics": func(context.Context, *kube.AdmissionRequest) *kube.AdmissionResponse { panic("no") },
		"/silent": func(context.Context, *kube.AdmissionRequest) *kube.AdmissionResponse { return nil },
		"/waits": func(ctx context.Context, _ *kube.AdmissionRequest) *kube.AdmissionResponse {
			deadline, _ := ctx.Deadline()
			return &kube.AdmissionResponse{Warnings: []string{time.Until(deadline).Round(time.Second).String()}}
		},
	}, slog.New(slog.NewTextHandler(log, nil))), log
}

func TestHandler(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, content, body string
		code                              int
		want                              string
	}{
		{"a review", "POST", "/inject?timeout=5s", "application/json", review, 200, `"uid":"u1","allowed":true`},
		{"with a charset", "POST", "/inject", "application/json; charset=utf-8", review, 200, `"warnings":["of shop"]`},
		{"the API server's patience", "POST", "/waits?timeout=3s", "application/json", review, 200, `"3s"`},
		{"too much patience", "POST", "/waits?timeout=3h", "application/json", review, 200, `"30s"`},
		{"no patience", "POST", "/waits?timeout=soon", "application/json", review, 200, `"10s"`},
		{"another path", "POST", "/", "application/json", review, 404, "no such webhook"},
		{"a question", "GET", "/inject", "application/json", "", 405, "want POST"},
		{"YAML", "POST", "/inject", "application/yaml", review, 415, "want application/json"},
		{"no content type", "POST", "/inject", "", review, 415, "want application/json"},
		{"nothing", "POST", "/inject", "application/json", "", 400, "no AdmissionReview"},
		{"garbage", "POST", "/inject", "application/json", "\x16\x03\x01\x02", 400, "no AdmissionReview"},
		{"too deep", "POST", "/inject", "application/json", strings.Repeat("[", 1<<20), 400, "no AdmissionReview"},
		{"another version", "POST", "/inject", "application/json", strings.Replace(review, "io/v1", "io/v1beta1", 1), 400, "want AdmissionReview of admission.k8s.io/v1"},
		{"another kind", "POST", "/inject", "application/json", `{"kind": "Pod", "apiVersion": "v1"}`, 400, "want AdmissionReview"},
		{"no request", "POST", "/inject", "application/json", `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, 400, "has no request"},
		{"no UID", "POST", "/inject", "application/json", strings.Replace(review, "u1", "", 1), 400, "request.uid"},
		{"no answer", "POST", "/silent", "application/json", review, 500, "no answer"},
		{"a panic", "POST", "/panics", "application/json", review, 500, "no answer"},
		{"10 MB", "POST", "/inject", "application/json", strings.Repeat(" ", 10<<20) + review, 413, "want at most"},
		{"a large one", "POST", "/inject", "application/json", strings.Repeat(" ", 3<<20) + review, 200, `"allowed":true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := handler()
			request := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			request.Header.Set("Content-Type", tt.content)
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, request)
			if answer.Code != tt.code || !strings.Contains(answer.Body.String(), tt.want) {
				t.Fatalf("got %d %s, want %d with %s", answer.Code, answer.Body, tt.code, tt.want)
			}
			if tt.code != 200 {
				return
			}
			var out kube.AdmissionReview
			if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil || out.Kind != "AdmissionReview" || out.APIVersion != "admission.k8s.io/v1" {
				t.Errorf("the answer is %s: %v", answer.Body, err)
			}
		})
	}
}

func TestAPanicIsLogged(t *testing.T) {
	h, log := handler()
	request := httptest.NewRequest("POST", "/panics", strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(httptest.NewRecorder(), request)
	for _, want := range []string{"a webhook panics", "name=web", "panic=no", "handler_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q: %s", want, log)
		}
	}
}

// pipes is a listener in memory, so that a test controls the time of its connections.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p.conns); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// A request without its body ends after ten seconds, and no small request waits for large ones whose bodies do not
// come.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := handler()
		l := pipes{make(chan net.Conn)}
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		const header = "POST /inject?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
		answers := make(chan string)
		ask := func(size int, body string) {
			conn := l.dial()
			go func() {
				defer conn.Close()
				fmt.Fprintf(conn, header+"%s", size, body)
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					answers <- err.Error()
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answers <- answer.Status + " " + string(text)
			}()
		}
		began := time.Now()
		for range 2 * largeBodies / maxBody {
			ask(maxBody, "{")
		}
		synctest.Wait()
		ask(len(review), review)
		if got := <-answers; !strings.Contains(got, `"allowed":true`) || time.Since(began) > time.Second {
			t.Errorf("after %s a small request gets %s", time.Since(began), got)
		}
		slow, waited := 0, 0
		for range 2 * largeBodies / maxBody {
			switch got := <-answers; {
			case strings.HasPrefix(got, "408"):
				slow++
			case strings.HasPrefix(got, "503"):
				waited++
			default:
				t.Errorf("a slow client gets %s", got)
			}
		}
		if took := time.Since(began); took > 2*readTimeout || slow < largeBodies/maxBody {
			t.Errorf("after %s %d clients were told that they are slow, %d that there are too many", took, slow, waited)
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// TLS of webhooks has no HTTP/2, whose streams no bound here counts.
func TestOnlyHTTP1(t *testing.T) {
	made, err := newPair(names, start)
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{Service: Service{"mesh", "discovery", "cluster.local"}, Now: func() time.Time { return start }, pairs: &pairs{newest: made}}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(made.root)
	for _, tt := range []struct {
		offered []string
		spoken  bool
	}{{[]string{"h2"}, false}, {[]string{"h2", "http/1.1"}, true}, {nil, true}} {
		here, there := net.Pipe()
		done := make(chan error)
		go func() { done <- tls.Server(there, k.TLS()).HandshakeContext(t.Context()) }()
		client := tls.Client(here, &tls.Config{RootCAs: roots, ServerName: names[0], NextProtos: tt.offered, Time: k.Now})
		err := client.HandshakeContext(t.Context())
		if (err == nil) != tt.spoken || client.ConnectionState().NegotiatedProtocol == "h2" {
			t.Errorf("%q: %v", tt.offered, err)
		}
		here.Close()
		<-done
	}
}

// Reviews are counted by what became of them, and no caller can add a label.
func TestReviewsAreCounted(t *testing.T) {
	answers := map[string]*kube.AdmissionResponse{
		"allowed": {Allowed: true}, "patched": {Allowed: true, Patch: []byte("[]")},
		"skipped": {Allowed: true, AuditAnnotations: map[string]string{Skipped: "why"}}, "refused": {}, "unanswered": nil,
	}
	h := NewHandler(map[string]Review{"/inject": func(_ context.Context, r *kube.AdmissionRequest) *kube.AdmissionResponse {
		return answers[r.Name]
	}}, slog.New(slog.DiscardHandler))
	ask := func(path, body string) {
		request := httptest.NewRequest("POST", path, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), request)
	}
	for name := range answers {
		ask("/inject", strings.Replace(review, "web", name, 1))
	}
	ask("/inject", "garbage")
	for _, path := range []string{"/a", "/b", "/inject/", "/\xff"} {
		ask(path, review)
	}
	want := `
# HELP pilotlight_webhook_reviews_total Admission requests, by path and outcome: allowed, patched, skipped, refused; unanswered, for which failurePolicy decides; invalid, which were no reviews.
# TYPE pilotlight_webhook_reviews_total counter
pilotlight_webhook_reviews_total{outcome="allowed",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="invalid",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="invalid",path="other"} 4
pilotlight_webhook_reviews_total{outcome="patched",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="refused",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="skipped",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="unanswered",path="/inject"} 1
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want), "pilotlight_webhook_reviews_total"); err != nil {
		t.Error(err)
	}
	if series := testutil.CollectAndCount(h, "pilotlight_webhook_review_seconds"); series != 2 {
		t.Errorf("there are %d durations, want one for each of 2 paths", series)
	}
}

// The metrics of the certificate tell when it ends, and whether it is looked after; the lines tell why not.
func TestKeeperTellsItsState(t *testing.T) {
	k := &Keeper{Service: Service{"mesh", "discovery", "cluster.local"}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return start }}
	u := &upkeep{Keeper: k}
	told := func(metrics string, lines ...string) {
		t.Helper()
		names := []string{"pilotlight_webhook_certificate_expiry_timestamp_seconds", "pilotlight_webhook_certificate_kept", "pilotlight_webhook_bundle_writes_total"}
		out, err := testutil.CollectAndFormat(k, expfmt.TypeTextPlain, names...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "#") {
				got = append(got, strings.TrimPrefix(strings.TrimSpace(line), "pilotlight_webhook_"))
			}
		}
		if strings.Join(got, ", ") != metrics {
			t.Errorf("the metrics are %q, want %q", got, metrics)
		}
		if got := k.Lines(); !slices.Equal(got, lines) || k.Serves() != strings.Contains(metrics, "expiry") {
			t.Errorf("the lines are %q, want %q; there is one to serve: %v", got, lines, k.Serves())
		}
	}
	told("certificate_kept 0", "webhooks: there is no certificate yet")
	u.tell(errors.New("it is another's"))
	told("certificate_kept 0", "webhooks: there is no certificate yet: it is another's")
	made, err := newPair(names, start)
	if err != nil {
		t.Fatal(err)
	}
	u.serve(&pairs{newest: made})
	ends := fmt.Sprintf("certificate_expiry_timestamp_seconds %g", float64(made.leaf().NotAfter.Unix()))
	told(ends + ", certificate_kept 1")
	u.tell(errors.New("it is broken"))
	told(ends+", certificate_kept 0", "webhooks: the certificate is not looked after: it is broken")
	u.serve(&pairs{newest: made})

	// A configuration that is not there, or calls somebody else, is named.
	k.Mutating = "ours"
	u.miss()
	told(ends + ", certificate_kept 1") // its list has not come
	list := &kube.Watch{Kind: mutatingKind}
	u.take(kube.Event{Of: list, List: true})
	u.miss()
	told(ends+", certificate_kept 1", "webhooks: there is no MutatingWebhookConfiguration ours")
	for _, tt := range [][2]string{{"other", "webhooks: no webhook of MutatingWebhookConfiguration ours calls service mesh/discovery"}, {"discovery", ""}} {
		service, line := tt[0], tt[1]
		text := "kind: MutatingWebhookConfiguration\nmetadata: {name: ours}\nwebhooks: [{name: a, clientConfig: {service: {namespace: mesh, name: " + service + "}}}]"
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		u.take(kube.Event{Of: list, Put: &o})
		u.miss()
		if line == "" {
			u.count(mutatingKind)
			told(`bundle_writes_total{kind="MutatingWebhookConfiguration"} 1, ` + ends + ", certificate_kept 1")
		} else {
			told(ends+", certificate_kept 1", line)
		}
	}
}
