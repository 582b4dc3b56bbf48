package sds

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"go.uber.org/goleak"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// client is gRPC's own client, so that the wire format is tested against another implementation.
func client(t *testing.T, s *Server) secretv3.SecretDiscoveryServiceClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sds.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := s.NewHTTPServer(slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Close()
		<-done
	})
	return secretv3.NewSecretDiscoveryServiceClient(conn)
}

func newServer(log *strings.Builder) *Server {
	return &Server{Log: slog.New(slog.NewTextHandler(log, nil))}
}

func TestStreamSecrets(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var log strings.Builder
	t.Run("stream", func(t *testing.T) {
		s := newServer(&log)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		stream, err := client(t, s).StreamSecrets(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(r *discoveryv3.DiscoveryRequest) {
			t.Helper()
			r.TypeUrl = typeURL
			if err := stream.Send(r); err != nil {
				t.Fatal(err)
			}
		}
		get := func(want string) *discoveryv3.DiscoveryResponse {
			t.Helper()
			r, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Resources) != 1 || r.TypeUrl != typeURL || r.VersionInfo == "" {
				t.Fatalf("got %v", r)
			}
			var secret tlsv3.Secret
			if err := r.Resources[0].UnmarshalTo(&secret); err != nil {
				t.Fatal(err)
			}
			got := secret.Name + " " + string(secret.GetTlsCertificate().GetCertificateChain().GetInlineBytes()) +
				string(secret.GetTlsCertificate().GetPrivateKey().GetInlineBytes()) +
				string(secret.GetValidationContext().GetTrustedCa().GetInlineBytes())
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			return r
		}
		node := &corev3.Node{Id: "sidecar~10.0.0.1~a.b~c", UserAgentName: "envoy"}
		ask(&discoveryv3.DiscoveryRequest{Node: node, ResourceNames: []string{Certificate}}) // answered when there is one
		s.Set(NewSecrets([]byte("chain1"), []byte("key1"), []byte("roots1")))
		first := get("default chain1key1")
		ask(&discoveryv3.DiscoveryRequest{ResourceNames: []string{Certificate}, ResponseNonce: first.Nonce, VersionInfo: first.VersionInfo})
		s.Set(NewSecrets([]byte("chain1"), []byte("key1"), []byte("roots2"))) // not what this stream asks for
		s.Set(NewSecrets([]byte("chain2"), []byte("key2"), []byte("roots2")))
		second := get("default chain2key2")
		ask(&discoveryv3.DiscoveryRequest{
			ResourceNames: []string{Certificate}, ResponseNonce: second.Nonce, VersionInfo: first.VersionInfo,
			ErrorDetail: &rpcstatus.Status{Code: 13, Message: "KEY_VALUES_MISMATCH"},
		})
		ask(&discoveryv3.DiscoveryRequest{ResourceNames: []string{Roots}, ResponseNonce: second.Nonce})
		get("ROOTCA roots2")
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err == nil || err.Error() != "EOF" {
			t.Errorf("the end of the stream: %v", err)
		}
	})
	if !strings.Contains(log.String(), "KEY_VALUES_MISMATCH") {
		t.Errorf("the refusal is not logged: %s", log.String())
	}
}

func TestDeltaSecrets(t *testing.T) {
	s := newServer(new(strings.Builder))
	s.Set(NewSecrets([]byte("chain1"), []byte("key1"), nil))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := client(t, s).DeltaSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: []string{Roots, Certificate}}); err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range r.Resources {
			var secret tlsv3.Secret
			if err := resource.Resource.UnmarshalTo(&secret); err != nil || resource.Name != secret.Name || resource.Version == "" {
				t.Fatalf("%v: %v", resource, err)
			}
			out = append(out, resource.Name)
		}
		return out
	}
	if got := names(); len(got) != 1 || got[0] != Certificate {
		t.Fatalf("got %v", got)
	}
	s.Set(NewSecrets([]byte("chain1"), []byte("key1"), []byte("roots1")))
	if got := names(); len(got) != 1 || got[0] != Roots {
		t.Fatalf("got %v, want what is new alone", got)
	}
}

func TestOtherCallsAreRefused(t *testing.T) {
	s := newServer(new(strings.Builder))
	c := client(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.FetchSecrets(ctx, &discoveryv3.DiscoveryRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("FetchSecrets: %v", err)
	}
	stream, err := c.StreamSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "is not served") {
		t.Errorf("another type: %v", err)
	}
	stream, err = c.StreamSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{ResourceNames: make([]string, 0), VersionInfo: strings.Repeat("x", 2<<20)}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a message of 2 MiB: %v", err)
	}
}

// A certificate that is renewed while a request is answered reaches the client too: it would stay unknown to it until the next one.
func TestRenewedDuringAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(new(strings.Builder))
		s.Set(NewSecrets([]byte("chain1"), []byte("key1"), nil))
		ask, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: []string{Certificate}})
		if err != nil {
			t.Fatal(err)
		}
		body, client := io.Pipe()
		var answers [][]byte
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.serve(ctx, writer(func(message []byte) {
				if answers = append(answers, message); len(answers) == 1 {
					s.Set(NewSecrets([]byte("chain2"), []byte("key2"), nil))
				}
			}), http.NewResponseController(httptest.NewRecorder()), body, true)
		}()
		if err := frame.Write(client, ask); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(answers) != 2 || !bytes.Contains(answers[0], []byte("chain1")) || !bytes.Contains(answers[1], []byte("chain2")) {
			t.Errorf("the client is sent %q, want both certificates", answers)
		}
		cancel()
		client.Close()
		<-done
	})
}

// writer is called with each message that is written.
type writer func(message []byte)

func (w writer) Write(p []byte) (int, error) {
	w(bytes.Clone(p))
	return len(p), nil
}

// A gate's certificate comes when the gate is opened, not before, beside the workload's; its key belongs to it.
func TestOpen(t *testing.T) {
	var log strings.Builder
	s := newServer(&log)
	s.Set(NewSecrets(nil, nil, []byte("roots")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := client(t, s).StreamSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	receive := func() (names []string, last *tlsv3.Secret) {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range r.Resources {
			last = &tlsv3.Secret{}
			if err := resource.UnmarshalTo(last); err != nil {
				t.Fatal(err)
			}
			names = append(names, last.Name)
		}
		return names, last
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: []string{"gate", Roots}}); err != nil {
		t.Fatal(err)
	}
	if names, _ := receive(); !slices.Equal(names, []string{Roots}) {
		t.Fatalf("the first answer is %s", names)
	}
	if err := s.Open("another"); err != nil {
		t.Fatal(err)
	}
	if err := s.Open("gate"); err != nil {
		t.Fatal(err)
	}
	names, gate := receive()
	if !slices.Equal(names, []string{Roots, "gate"}) {
		t.Fatalf("the second answer is %s", names)
	}
	pair := gate.GetTlsCertificate()
	if _, err := tls.X509KeyPair(pair.GetCertificateChain().GetInlineBytes(), pair.GetPrivateKey().GetInlineBytes()); err != nil {
		t.Error(err)
	}
	s.Shut("gate")
	if all, _ := s.newest(); len(all) != 2 {
		t.Errorf("after Shut there are %d secrets, want another's and the roots", len(all))
	}
}
