package ads

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
)

// running is a server on bufconn, with everything that a test opened to it.
type running struct {
	*Server
	t        *testing.T
	log      *lockedBuffer
	listener *bufconn.Listener
	client   *grpc.ClientConn
	stop     func() error // ends Serve and returns its error
}

// dial makes a client with a separate connection.
func (r *running) dial(secure credentials.TransportCredentials) *grpc.ClientConn {
	r.t.Helper()
	client, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.listener.DialContext(ctx) }))
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

func run(t *testing.T) *running { return runWith(t, testLimits(), nil) }

func runWith(t *testing.T, limits Limits, secure *TLS) *running {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	out := &lockedBuffer{}
	server := New(limits, slog.New(slog.NewTextHandler(out, nil)))
	listener := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		if secure != nil {
			served <- server.ServeTLS(ctx, listener, secure)
			return
		}
		served <- server.Serve(ctx, listener)
	}()
	r := &running{Server: server, t: t, log: out, listener: listener}
	client := r.dial(insecure.NewCredentials())
	r.client = client
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(adstest.Deadline):
			return fmt.Errorf("Serve did not return within %s", adstest.Deadline)
		}
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		client.Close()
		goleak.VerifyNone(t, leaks)
	})
	return r
}

// testLimits returns limits with a stop short enough for tests.
func testLimits() Limits {
	l := DefaultLimits()
	l.Shutdown = 3 * time.Second
	return l
}

// lockedBuffer collects the log of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// peerStream is a client's end of one stream.
type peerStream struct {
	t *testing.T
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func (r *running) open() *peerStream { return r.openOn(r.client) }

func (r *running) openOn(client *grpc.ClientConn) *peerStream {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adstest.Deadline)
	r.t.Cleanup(cancel)
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(client).StreamAggregatedResources(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &peerStream{r.t, s}
}

func (s *peerStream) send(r *discoveryv3.DiscoveryRequest) {
	s.t.Helper()
	if err := s.Send(r); err != nil {
		s.t.Fatal(err)
	}
}

// ask subscribes with the node, as on a stream's first request.
func (s *peerStream) ask(typeURL string, names ...string) *discoveryv3.DiscoveryResponse {
	s.t.Helper()
	s.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: typeURL, ResourceNames: names})
	return s.next(typeURL)
}

func (s *peerStream) next(typeURL string) *discoveryv3.DiscoveryResponse {
	s.t.Helper()
	r, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	if r.TypeUrl != typeURL {
		s.t.Fatalf("got a response of %s, want %s", r.TypeUrl, typeURL)
	}
	return r
}

func (s *peerStream) ack(r *discoveryv3.DiscoveryResponse, names ...string) {
	s.t.Helper()
	s.send(&discoveryv3.DiscoveryRequest{
		TypeUrl: r.TypeUrl, VersionInfo: r.VersionInfo, ResponseNonce: r.Nonce, ResourceNames: names,
	})
}

// ends returns the code and text with which the stream ends.
func (s *peerStream) ends() (codes.Code, string) {
	for {
		if _, err := s.Recv(); err != nil {
			return status.Code(err), status.Convert(err).Message()
		}
	}
}
