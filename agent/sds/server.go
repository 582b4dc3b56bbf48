package sds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
)

const (
	sotwMethod  = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
	deltaMethod = "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets"

	maxMessage   = 1 << 20 // bytes of a request; it holds the node, whose metadata has up to half a megabyte
	writeTimeout = 10 * time.Second
)

// Server sends the newest secrets to Envoys.
type Server struct {
	Log *slog.Logger

	mu      sync.Mutex
	secrets Secrets
	gates   Secrets       // see Open
	changed chan struct{} // closed when there are newer ones

	asked asked
}

// Set makes these the newest secrets. It does nothing if they are equal to the current ones.
func (s *Server) Set(secrets Secrets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secrets.equal(secrets) {
		return
	}
	s.secrets = secrets
	s.announce()
}

// announce wakes the streams. The caller holds the mutex.
func (s *Server) announce() {
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// Newest returns the newest secrets.
func (s *Server) Newest() Secrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secrets
}

func (s *Server) newest() (Secrets, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	if len(s.gates) == 0 {
		return s.secrets, s.changed
	}
	all := maps.Clone(s.gates)
	maps.Copy(all, s.secrets)
	return all, s.changed
}

// NewHTTPServer returns an HTTP server for s: see frame.NewServer.
func (s *Server) NewHTTPServer(log *slog.Logger) *http.Server {
	return frame.NewServer(s, 2*maxAsked, log) // Envoy has a stream for each secret
}

// ServeHTTP handles a gRPC call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !frame.Accept(w, r) {
		return
	}
	if r.URL.Path != sotwMethod && r.URL.Path != deltaMethod {
		frame.End(w, frame.Unimplemented, fmt.Errorf("method %q, want %s or %s", r.URL.Path, sotwMethod, deltaMethod))
		return
	}
	c := http.NewResponseController(w)
	if err := c.Flush(); err != nil {
		return
	}
	code, err := s.serve(r.Context(), w, c, r.Body, r.URL.Path == deltaMethod)
	frame.End(w, code, err)
}

// serve answers one stream until the client ends it.
func (s *Server) serve(ctx context.Context, w io.Writer, c *http.ResponseController, body io.ReadCloser, delta bool) (string, error) {
	requests, failed := make(chan request), make(chan error, 1)
	go func() { // ends with the body, which net/http closes after the handler
		failed <- receive(ctx, body, delta, requests)
	}()
	st := stream{delta: delta}
	var files map[string]bool // names of the stream's file-based subscriptions
	defer func() { s.asked.replace(files, nil) }()
	for {
		secrets, changed := s.newest()
		message := st.update(secrets) // with what came while the last message was written
		if message == nil {
			select {
			case <-ctx.Done():
				return frame.Unavailable, ctx.Err()
			case err := <-failed:
				if errors.Is(err, io.EOF) {
					return frame.OK, nil
				}
				return frame.InvalidArgument, err
			case r := <-requests:
				var refusal string
				var err error
				if message, refusal, err = st.request(r, secrets); err != nil {
					return frame.InvalidArgument, err
				}
				if r.refused {
					s.Log.Error("Envoy refuses a certificate", "secrets", slices.Sorted(maps.Keys(st.names)), "err", refusal)
				}
				var refused []string
				if files, refused = s.asked.replace(files, st.names); len(refused) > 0 {
					s.Log.Error("secrets of files are not served: Envoy asks for too many", "secrets", refused, "most", maxAsked)
				}
			case <-changed:
			}
		}
		if message == nil {
			continue
		}
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := frame.Write(w, message); err != nil {
			return frame.Unavailable, err
		}
		if err := c.Flush(); err != nil {
			return frame.Unavailable, err
		}
		_ = c.SetWriteDeadline(time.Time{})
	}
}

// receive passes on requests until the client sends no more, which is io.EOF.
func receive(ctx context.Context, from io.Reader, delta bool, requests chan<- request) error {
	for {
		message, err := frame.Read(from, maxMessage)
		if err != nil {
			return err
		}
		r, err := parseRequest(message, delta)
		if err != nil {
			return err
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
