package sds

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
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

// maxAsked is how many file-based secrets all streams together may subscribe to.
const maxAsked = 1000

// asked counts the streams that subscribe to each file-based secret.
type asked struct {
	mu      sync.Mutex
	streams map[string]int
	changed chan struct{} // has a value when names were added since it was last read
}

// Asked returns the names of the file-based secrets that streams subscribe to now.
func (s *Server) Asked() []string {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	return slices.Sorted(maps.Keys(s.asked.streams))
}

// AskedCh returns a channel that has a value after Asked has got a further name.
func (s *Server) AskedCh() <-chan struct{} {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	return s.asked.channel()
}

func (a *asked) channel() chan struct{} {
	if a.changed == nil {
		a.changed = make(chan struct{}, 1)
	}
	return a.changed
}

// replace replaces a stream's subscriptions by new ones, and returns those that are in effect. Names beyond maxAsked
// are refused.
func (a *asked) replace(before map[string]bool, names map[string]bool) (now map[string]bool, refused []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now = map[string]bool{}
	for name := range names {
		if _, ok := FilesOf(name); !ok {
			continue
		}
		_, known := a.streams[name]
		switch {
		case before[name]:
		case !known && len(a.streams) >= maxAsked:
			refused = append(refused, name)
			continue
		case !known:
			select {
			case a.channel() <- struct{}{}:
			default:
			}
			fallthrough
		default:
			if a.streams == nil {
				a.streams = map[string]int{}
			}
			a.streams[name]++
		}
		now[name] = true
	}
	for name := range before {
		if now[name] {
			continue
		}
		if a.streams[name]--; a.streams[name] == 0 {
			delete(a.streams, name)
		}
	}
	return now, refused
}

// Open makes a certificate with a key under a name, so that an Envoy that waits for a secret of this name goes on. The key is
// new, and the certificate proves nothing: it is signed by nobody.
func (s *Server) Open(name string) error {
	secret, err := newGateSecret(name)
	if err != nil {
		return fmt.Errorf("make the certificate %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = maps.Clone(s.gates)
	if s.gates == nil {
		s.gates = Secrets{}
	}
	s.gates[name] = secret
	s.announce()
	return nil
}

// Shut forgets the certificate of a name.
func (s *Server) Shut(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = maps.Clone(s.gates)
	delete(s.gates, name)
	s.announce()
}

// A certificate of a P-256 key in DER (RFC 5280), before and after the public key: CN=agent_gate, valid until the end of 9999. Envoy
// checks that certificate and key match, and no signature. A call of x509.CreateCertificate would add 70 KB to the agent.
const (
	certificateHead = "308201193081bfa003020102020101300a06082a8648ce3d04030230153113301106035504030c0a6167656e745f67617465" +
		"3020170d3230303130313030303030305a180f39393939313233313233353935395a30153113301106035504030c0a6167656e745f67617465" +
		"3059301306072a8648ce3d020106082a8648ce3d030107034200"
	certificateTail = "300a06082a8648ce3d0403020349003046022100e2b7c860b7bf5c003872023ba86a920f57e3adbcbf97bce3782180ebd4f7bdf7" +
		"0221008f156392c2c01ce4cf43dfe1fcc36103ba0ff8d0d9025585a7e019ddec98ef4e"
	keyHead = "30310201010420" // ECPrivateKey (RFC 5915), before and after the 32 bytes
	keyTail = "a00a06082a8648ce3d030107"
)

func newGateSecret(name string) (Secret, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return Secret{}, err
	}
	chain, err := around(certificateHead, key.PublicKey().Bytes(), certificateTail)
	if err != nil {
		return Secret{}, err
	}
	private, err := around(keyHead, key.Bytes(), keyTail)
	if err != nil {
		return Secret{}, err
	}
	out := Secrets{}
	out.add(name, [3][]byte{
		armored("CERTIFICATE", chain),
		armored("EC PRIVATE KEY", private),
	})
	return out[name], nil
}

func around(head string, middle []byte, tail string) ([]byte, error) {
	before, err := hex.DecodeString(head)
	if err != nil {
		return nil, err
	}
	after, err := hex.DecodeString(tail)
	return append(append(before, middle...), after...), err
}

// armored returns PEM, as package encoding/pem writes it; that one would add 7 KB to the agent.
func armored(kind string, der []byte) []byte {
	out, text := "-----BEGIN "+kind+"-----\n", base64.StdEncoding.EncodeToString(der)
	for len(text) > 0 {
		n := min(64, len(text))
		out, text = out+text[:n]+"\n", text[n:]
	}
	return []byte(out + "-----END " + kind + "-----\n")
}
