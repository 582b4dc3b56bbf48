package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/lastgood"
)

const deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// silence is how long an Envoy that has nothing waits for discovery's first answer.
const silence = 2 * time.Second

// maxStreams is how many streams a connection may have. Envoy has one.
const maxStreams = 4

// Config is the configuration of a Relay.
type Config struct {
	Host           string // of discovery: a name or an IP address
	Port           int
	ConnectTimeout time.Duration
	TLS            *TLS // nil for plain text

	Store  *lastgood.Store
	MaxAge time.Duration // how old the last contact with discovery may be when the memory of it is served; 0 for any age

	// Process returns what is known of an Envoy: false if there is no such process.
	Process func(pid int) (Process, bool)
	// Says returns what is added to the metadata of Envoy's node on each stream; nil for nothing.
	Says func() map[string]string
	Log  *slog.Logger
}

// Process is an Envoy.
type Process struct {
	Started   time.Time // which tells it from other processes, and its age
	Bootstrap string    // the hash of its bootstrap, without the certificate
	Certified bool      // it has a certificate of the mesh
	Trial     bool      // it tries a configuration and never serves: nothing of it is remembered
}

// Relay passes streams on. Its methods may be called by several goroutines.
type Relay struct {
	config Config
	calls  sync.WaitGroup
	pace   pace

	mu      sync.Mutex
	envoys  map[int64]*envoy   // by the start of the process
	streams map[*stream]func() // each one's end
	misfit  string             // why the file could not be used, as it was last told
}

// New returns a relay.
func New(c Config) *Relay {
	return &Relay{config: c, envoys: map[int64]*envoy{}, streams: map[*stream]func(){}}
}

// NewHTTPServer returns an HTTP server for r: see frame.NewServer. pid returns the process of a connection's client.
func (r *Relay) NewHTTPServer(pid func(net.Conn) int) *http.Server {
	server := frame.NewServer(r, maxStreams, r.config.Log)
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, clientKey{}, pid(c))
	}
	return server
}

// Wait waits until no connection to discovery is in use any more. The server must be closed.
func (r *Relay) Wait() { r.calls.Wait() }

type clientKey struct{}

// ServeHTTP handles a gRPC call.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !frame.Accept(w, req) {
		return
	}
	if req.URL.Path != deltaMethod {
		frame.End(w, frame.Unimplemented, fmt.Errorf("method %q, want %s", req.URL.Path, deltaMethod))
		return
	}
	pid, _ := req.Context().Value(clientKey{}).(int)
	process, known := r.config.Process(pid)
	if !known {
		frame.End(w, frame.Unavailable, fmt.Errorf("process %d is no Envoy of this agent", pid))
		return
	}
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return
	}
	s := &stream{relay: r, envoy: r.begin(process), process: process, header: req.Header, out: w, flush: control.Flush}
	err := s.run(req.Context(), req.Body)
	r.end(s.envoy, process)
	frame.End(w, frame.Unavailable, err)
}

// load opens the memory. It logs once that a file does not fit.
func (r *Relay) load(want lastgood.Header) *lastgood.Loaded {
	loaded, err := r.config.Store.Load(want, r.config.MaxAge)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.misfit = ""
		if loaded.Cut {
			r.config.Log.Warn("the last good configuration is damaged at its end: what is before that is used", "file", loaded.Name)
		}
		if loaded.Plain && want.Certificate {
			r.config.Log.Warn("the last good configuration is of an Envoy without a certificate: there is none with one", "file", loaded.Name)
		}
	case errors.Is(err, lastgood.ErrNone):
	case err.Error() != r.misfit:
		r.misfit = err.Error()
		r.config.Log.Warn("the last good configuration is not used", "file", r.config.Store.Path(want.Node), "err", err)
	}
	return loaded
}

// Carried is what another image of the agent needs to know of an Envoy.
type Carried struct {
	Started  time.Time `json:"Started"`
	Asked    []string  `json:"Asked"`    // types
	Got      []string  `json:"Got"`      // likewise
	Accepted []string  `json:"Accepted"` // likewise
	Basic    time.Time `json:"Basic"`
	State    State     `json:"State"`
}

// Carry returns what is known of each Envoy.
func (r *Relay) Carry() (out []Carried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, e := range r.envoys {
		e.mu.Lock()
		out = append(out, Carried{
			time.Unix(0, number), slices.Sorted(maps.Keys(e.asked)), slices.Sorted(maps.Keys(e.got)), slices.Sorted(maps.Keys(e.accepted)),
			e.basic, e.state,
		})
		e.mu.Unlock()
	}
	return out
}

// Resume goes on with what another image knew. It must be called before a stream begins.
func (r *Relay) Resume(carried []Carried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range carried[:min(len(carried), mostEnvoys)] {
		e := newEnvoy(c.Started.UnixNano())
		for to, from := range map[*map[string]bool][]string{&e.asked: c.Asked, &e.got: c.Got, &e.accepted: c.Accepted} {
			for _, typeURL := range from {
				(*to)[typeURL] = true
			}
		}
		e.basic, e.state = c.Basic, c.State
		e.wants.end() // it may serve, and an upgrade makes nothing unready
		r.envoys[e.number] = e
	}
}
