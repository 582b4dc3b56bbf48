package sds

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	sotwMethod  = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
	deltaMethod = "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets"

	maxMessage   = 1 << 20 // bytes of a request; it holds the node, whose metadata has up to half a megabyte
	writeTimeout = 10 * time.Second
)

// The status codes of gRPC that are used here.
const (
	statusInvalidArgument = "3"
	statusUnimplemented   = "12"
	statusUnavailable     = "14"
)

// Server sends the newest secrets to Envoys.
type Server struct {
	Log *slog.Logger

	mu      sync.Mutex
	secrets Secrets
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
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *Server) newest() (Secrets, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.secrets, s.changed
}

// NewHTTPServer returns an HTTP server for s, with HTTP/2 without TLS. The listener's socket must be accessible to the
// agent's own user only, since clients are not authenticated.
func (s *Server) NewHTTPServer(log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: s, Protocols: protocols, ReadHeaderTimeout: writeTimeout,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 2 * maxAsked}, // Envoy has one for each secret
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.Background() },
	}
}

// ServeHTTP handles a gRPC call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, "this is a gRPC server", http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	if r.URL.Path != sotwMethod && r.URL.Path != deltaMethod {
		end(w, statusUnimplemented, fmt.Errorf("method %q, want %s or %s", r.URL.Path, sotwMethod, deltaMethod))
		return
	}
	c := http.NewResponseController(w)
	if err := c.Flush(); err != nil {
		return
	}
	code, err := s.serve(r.Context(), w, c, r.Body, r.URL.Path == deltaMethod)
	end(w, code, err)
}

// end writes the status of a call as trailers.
func end(w http.ResponseWriter, code string, err error) {
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", code)
	if err != nil {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", strings.Map(printable, err.Error()))
	}
}

// printable drops characters that a header must not contain, and %, which begins an escape in gRPC.
func printable(r rune) rune {
	if r < ' ' || r > '~' || r == '%' {
		return -1
	}
	return r
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
		var message []byte
		var err error
		select {
		case <-ctx.Done():
			return statusUnavailable, ctx.Err()
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return "0", nil
			}
			return statusInvalidArgument, err
		case r := <-requests:
			var refusal string
			if message, refusal, err = st.request(r, secrets); err != nil {
				return statusInvalidArgument, err
			}
			if r.refused {
				s.Log.Error("Envoy refuses a certificate", "secrets", slices.Sorted(maps.Keys(st.names)), "err", refusal)
			}
			var refused []string
			if files, refused = s.asked.replace(files, st.names); len(refused) > 0 {
				s.Log.Error("secrets of files are not served: Envoy asks for too many", "secrets", refused, "most", maxAsked)
			}
		case <-changed:
			secrets, _ = s.newest()
			message = st.update(secrets)
		}
		if message == nil {
			continue
		}
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := send(w, message); err != nil {
			return statusUnavailable, err
		}
		if err := c.Flush(); err != nil {
			return statusUnavailable, err
		}
		_ = c.SetWriteDeadline(time.Time{})
	}
}

// receive passes on requests until the client sends no more, which is io.EOF.
func receive(ctx context.Context, from io.Reader, delta bool, requests chan<- request) error {
	for {
		message, err := read(from)
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

// read reads a gRPC message: a byte that is 1 if the message is compressed, four bytes of length, and the message.
func read(from io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || size > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes, compressed %d: want at most %d and 0", size, head[0], maxMessage)
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, fmt.Errorf("a message ends early: %v", err)
	}
	return message, nil
}

func send(to io.Writer, message []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	_, err := to.Write(append(head, message...))
	return err
}
