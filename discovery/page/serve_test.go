package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func get(p *Page, path, encoding string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	return w
}

func none() []string { return nil }

// The page asks for nothing elsewhere, and all of it with the data of 1,000 services and 1,000 proxies is small.
func TestPage(t *testing.T) {
	facts := thousand()
	p := New(&Notifier{}, func() Facts { return facts }, none)
	plain, packed := 0, 0
	for path, want := range map[string]string{
		"/": "text/html", "/page/page.js": "text/javascript", "/page/page.css": "text/css", "/page/icon.svg": "image/svg+xml", "/page/data?q=&host=": "application/json",
	} {
		w := get(p, path, "")
		text := w.Body.String()
		if h := w.Header(); w.Code != 200 || !strings.HasPrefix(h.Get("Content-Type"), want) || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'; ") || h.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		for _, banned := range []string{"http://", "https://", "innerHTML", "onclick=", "style=", "eval("} {
			if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), banned) {
				t.Errorf("%s has %q", path, banned)
			}
		}
		z := get(p, path, "br, gzip")
		packed, plain = packed+z.Body.Len(), plain+len(text)
		if z.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s is not compressed", path)
		}
		r, err := gzip.NewReader(z.Body)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := io.ReadAll(r); err != nil || !bytes.Equal(same, []byte(text)) {
			t.Errorf("%s: compressed it is another text, %v", path, err)
		}
	}
	t.Logf("%d bytes, %d compressed", plain, packed)
	if plain > 300_000 {
		t.Errorf("the page has %d bytes, want at most 300,000", plain)
	}
	if w := get(p, "/page/other", ""); w.Code != 404 {
		t.Errorf("another path: %d", w.Code)
	}
}

// reader is a client of events: it tells how many it got.
type reader struct {
	*httptest.ResponseRecorder
	lines chan string
}

func (r *reader) Write(b []byte) (int, error) { r.lines <- string(b); return len(b), nil }

// WriteString hides the one of the recorder.
func (r *reader) WriteString(text string) (int, error) { return r.Write([]byte(text)) }
func (r *reader) Flush()                               {}

// An event is sent when the bell rings, at most one for each pause, and a beat tells of the faults, for which nobody rings.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bell Notifier
		var faults atomic.Pointer[[]string]
		faults.Store(&[]string{})
		p := New(&bell, func() Facts { return Facts{Faults: *faults.Load()} }, func() []string { return *faults.Load() })
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- p.Run(ctx) }()
		r := &reader{httptest.NewRecorder(), make(chan string, 100)}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/page/events", nil))
		}()
		want := func(what string, texts ...string) {
			t.Helper()
			synctest.Wait()
			for _, text := range texts {
				if len(r.lines) == 0 {
					t.Fatalf("%s: nothing is sent, want %q", what, text)
				}
				if got := <-r.lines; got != text {
					t.Errorf("%s: %q is sent, want %q", what, got, text)
				}
			}
			if len(r.lines) > 0 {
				t.Errorf("%s: %q is sent too", what, <-r.lines)
			}
		}
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		const changed = "data: changed\n\n"
		want("at first", "retry: 1000\n"+changed)
		bell.Notify()
		want("a change", changed)
		for range 10 {
			bell.Notify()
		}
		want("more at once")
		pass(pause)
		want("after the pause", changed)
		pass(pause)
		want("and no more")
		// A beat tells of which faults the data are: a browser compares it with what it shows, whenever it got that.
		told := func(what string, now ...string) string {
			t.Helper()
			faults.Store(&now)
			pass(beat)
			var data Data
			if err := json.Unmarshal(get(p, "/page/data", "").Body.Bytes(), &data); err != nil {
				t.Fatal(err)
			}
			want(what, "event: beat\ndata: "+data.Faults+"\n\n")
			return data.Faults
		}
		none, one, other := told("at rest"), told("a fault", "source a: it failed"), told("another", "source b: it failed")
		if none == one || one == other || other == none {
			t.Errorf("faults are told apart by %q, %q and %q", none, one, other)
		}
		if again := told("mended"); again != none {
			t.Errorf("mended faults are told as %q, want %q, as before them", again, none)
		}
		stop()
		<-ended
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// Readers are bounded: one more is let in, and the oldest ends. Those that take nothing hold up no bell.
func TestReadersAreBounded(t *testing.T) {
	var bell Notifier
	p := New(&bell, func() Facts { return Facts{} }, none)
	server := httptest.NewServer(p.Handler())
	ctx, stop := context.WithCancel(t.Context())
	go func() { _ = p.Run(ctx) }()
	defer server.Close() // it waits for all readers
	defer stop()
	open := func() io.Reader {
		t.Helper()
		response, err := server.Client().Get(server.URL + "/page/events")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.StatusCode != http.StatusOK {
			t.Fatalf("a reader gets %s", response.Status)
		}
		return response.Body
	}
	first := open()
	for range maxReaders {
		open()
	}
	if _, err := io.Copy(io.Discard, first); err != nil { // it returns when the stream has ended
		t.Error(err)
	}
	for range 10_000 { // nobody reads
		bell.Notify()
	}
	if p.readers.mu.Lock(); len(p.readers.open) != maxReaders {
		t.Errorf("%d readers, want %d", len(p.readers.open), maxReaders)
	}
	p.readers.mu.Unlock()
}

// The address with the most open pages makes room for those of others, and for its own.
func TestReadersOfManyAddresses(t *testing.T) {
	var r eventStreams
	enter := func(address string) (*browser, context.Context) { return r.enter(t.Context(), address) }
	friend, friendly := enter("10.0.0.1:1")
	var greedy []context.Context
	for len(r.open) < maxReaders {
		_, ctx := enter("[fd00::1]:1")
		greedy = append(greedy, ctx)
	}
	if enter("[fd00::2]:1"); greedy[0].Err() == nil || greedy[1].Err() != nil {
		t.Error("one more of the same network: want its oldest to leave")
	}
	for _, address := range []string{"10.0.0.2:1", "10.0.0.3:1", "[::ffff:10.0.0.3]:1", "10.0.0.1:2", "@"} {
		if _, ctx := enter(address); ctx.Err() != nil {
			t.Errorf("%s is refused, though one address has most places", address)
		}
	}
	left := 0
	for _, ctx := range greedy {
		if ctx.Err() != nil {
			left++
		}
	}
	if left != 6 || friendly.Err() != nil || len(r.open) != maxReaders {
		t.Errorf("%d of the greedy left, want 6; the friend: %v; %d are open", left, friendly.Err(), len(r.open))
	}
	r.exit(friend)
	if enter("[fd00::3]:1"); greedy[6].Err() != nil || len(r.open) != maxReaders {
		t.Errorf("a place is free, and one leaves all the same; %d are open", len(r.open))
	}
}

// The page is made by turns: a client that does not read its answer holds none.
func TestTurns(t *testing.T) {
	p := New(&Notifier{}, func() Facts { return Facts{} }, none)
	p.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page/data", nil).WithContext(ctx))
	if w.Body.Len() != 0 {
		t.Errorf("a client that left gets %q", w.Body)
	}
	<-p.turn
	if w := get(p, "/page/data", ""); w.Code != 200 {
		t.Errorf("then: %d", w.Code)
	}
}
