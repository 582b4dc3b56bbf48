package page

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/internal/connlimit"
)

const (
	maxReaders = 16                     // of events
	pause      = 200 * time.Millisecond // between two events of one reader
	beat       = 2 * time.Second        // between two looks for faults without a notification
	sendLimit  = 5 * time.Second        // for a reader to take an event
)

// changed is an event: a browser asks for its data again.
const changed = "data: changed\n\n"

// policy keeps the page from everything but discovery.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

//go:embed static
var static embed.FS

// Page serves the page. Its functions are called from any goroutine.
type Page struct {
	Notifier *Notifier
	Facts    func() Facts
	Faults   func() []string // as in Facts; told at each beat, for they change without a notification

	readers eventStreams
	turn    chan struct{}
	ended   chan struct{}
}

// New returns a Page.
func New(bell *Notifier, facts func() Facts, faults func() []string) *Page {
	return &Page{
		Notifier: bell, Facts: facts, Faults: faults, turn: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// Run ends the streams of events when ctx is done.
func (p *Page) Run(ctx context.Context) error {
	<-ctx.Done()
	close(p.ended)
	return nil
}

// Handler serves /, and what is below /page/. It lets everybody in: its caller decides.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { p.file(w, r, "index.html") })
	for _, name := range []string{"page.js", "page.css", "icon.svg"} {
		mux.HandleFunc("GET /page/"+name, func(w http.ResponseWriter, r *http.Request) { p.file(w, r, name) })
	}
	mux.HandleFunc("GET /page/data", p.data)
	mux.HandleFunc("GET /page/events", p.events)
	return mux
}

func header(w http.ResponseWriter, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

func (p *Page) file(w http.ResponseWriter, r *http.Request, name string) {
	text, err := static.ReadFile("static/" + name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header(w, map[string]string{".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[path.Ext(name)]+"; charset=utf-8")
	write(w, r, text)
}

// write sends a text, compressed if the client takes that.
func write(w http.ResponseWriter, r *http.Request, text []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(text) // a caller that left needs no answer
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(text)
	_ = z.Close()
}

// data answers what a browser shows. One answer is made at a time: it takes milliseconds of a mesh of 1,000 services.
func (p *Page) data(w http.ResponseWriter, r *http.Request) {
	select {
	case p.turn <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	text, err := p.answer(r.URL.Query())
	if err != nil {
		http.Error(w, fmt.Sprintf("encode: %v", err), http.StatusInternalServerError)
		return
	}
	header(w, "application/json")
	write(w, r, text)
}

// answer ends the caller's turn, whatever happens.
func (p *Page) answer(query url.Values) ([]byte, error) {
	defer func() { <-p.turn }()
	return json.Marshal(Of(p.Facts(), query.Get("q"), query.Get("host")))
}

// digest tells two lists of faults apart. A browser compares the one of a beat with that of the data that it shows:
// only it knows which it got last.
func digest(faults []string) string {
	h := fnv.New64a()
	for _, f := range faults {
		_, _ = io.WriteString(h, f+"\n") // a hash takes everything
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// events tells a browser when something has changed.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	who, ctx := p.readers.enter(r.Context(), r.RemoteAddr)
	defer p.readers.exit(who)
	header(w, "text/event-stream")
	control := http.NewResponseController(w)
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendLimit)) // a recorder of tests has none
		_, err := io.WriteString(w, text)
		return err == nil && control.Flush() == nil
	}
	next := p.Notifier.Next()
	for ok := send("retry: 1000\n" + changed); ok; {
		select {
		case <-ctx.Done():
			return
		case <-p.ended:
			return
		case <-time.After(beat):
			ok = send("event: beat\ndata: " + digest(p.Faults()) + "\n\n")
		case <-next:
			next = p.Notifier.Next() // before the event: what changes while it is sent is told by the next one
			ok = send(changed)
			select {
			case <-ctx.Done():
				return
			case <-p.ended:
				return
			case <-time.After(pause):
			}
		}
	}
}

// eventStreams are the open streams of events, the oldest first. A new one is always let in: where there are too many,
// the oldest of the source with the most of them ends, as package connlimit says. Its browser opens another one a second
// later.
type eventStreams struct {
	mu   sync.Mutex
	open []*browser
}

type browser struct {
	source netip.Prefix
	leave  context.CancelFunc
}

// enter adds a reader from an address, host:port. The context is done when it has to leave.
func (r *eventStreams) enter(ctx context.Context, address string) (*browser, context.Context) {
	from, _ := netip.ParseAddrPort(address) // of a Unix socket there is none: they are one source
	next := &browser{source: connlimit.SourceOf(from.Addr().Unmap())}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) >= maxReaders {
		guests := make([]connlimit.Guest, 0, len(r.open)+1)
		for _, o := range append(slices.Clone(r.open), next) {
			guests = append(guests, connlimit.Guest{Source: o.source, Served: true})
		}
		i := connlimit.Victim(guests, connlimit.Ends)
		r.open[i].leave()
		r.open = slices.Delete(r.open, i, i+1)
	}
	ctx, next.leave = context.WithCancel(ctx)
	r.open = append(r.open, next)
	return next, ctx
}

// exit removes a reader that has ended.
func (r *eventStreams) exit(who *browser) {
	who.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = slices.DeleteFunc(r.open, func(o *browser) bool { return o == who })
}

// Notifier tells everybody who waits that something has changed. The zero value is ready.
type Notifier struct {
	mu       sync.Mutex
	notified chan struct{} // nil while nobody waits
}

// Notify wakes who waits. It returns at once.
func (b *Notifier) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notified != nil {
		close(b.notified)
		b.notified = nil
	}
}

// Next is closed at the next Notify.
func (b *Notifier) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.notified == nil {
		b.notified = make(chan struct{})
	}
	return b.notified
}
