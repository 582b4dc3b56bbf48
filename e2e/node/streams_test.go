//go:build node

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// deployStreams deploys the program streams, and returns the address of its Service.
func (n *node) deployStreams() string {
	n.t.Helper()
	program := n.in("streams")
	n.must("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./e2e/node/streams")
	n.image("localhost/streams:1", "streams", program, `["/streams"]`)
	n.kubectl("apply", "-f", n.write("streams.yaml", `
apiVersion: v1
kind: Service
metadata: {name: streams, namespace: bookinfo}
spec:
  selector: {app: streams}
  ports: [{name: http, port: 9080}, {name: grpc, port: 9090}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: streams, namespace: bookinfo}
spec:
  replicas: 2
  selector: {matchLabels: {app: streams}}
  template:
    metadata: {labels: {app: streams}}
    spec:
      containers:
      - name: streams
        image: localhost/streams:1
        readinessProbe: {httpGet: {path: /health, port: 9080}}
        lifecycle: {preStop: {sleep: {seconds: 10}}}
        securityContext: {runAsUser: 1000}
`))
	n.kubectl("-n", "bookinfo", "rollout", "status", "deployment/streams", "--timeout=120s")
	return n.kubectl("-n", "bookinfo", "get", "service", "streams", "-o", "jsonpath={.spec.clusterIP}")
}

// streamClients are clients without a sidecar, of gRPC streams and of WebSockets. A short one ends by itself after 20 messages; a
// long one goes on until the program says bye.
type streamClients struct {
	stop    context.CancelFunc
	clients sync.WaitGroup
	mu      sync.Mutex
	ends    map[string]int // how many have ended in a way, such as "short gRPC stream: done"
}

// A stream sends a message and returns what comes back.
type stream interface {
	echo() error
	close()
}

// errBye is what a stream returns once the program has said bye.
var errBye = errors.New("bye")

func (n *node) openStreams(address string) *streamClients {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	s := &streamClients{stop: cancel, ends: map[string]int{}}
	connection, err := grpc.NewClient("passthrough:///"+address+":9090", grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(n.t, err)
	n.t.Cleanup(func() { connection.Close() })
	for kind, open := range map[string]func() (stream, error){
		"gRPC stream": func() (stream, error) {
			ctx, cancel := context.WithCancel(context.Background())
			calls, err := grpc_testing.NewTestServiceClient(connection).FullDuplexCall(ctx)
			return grpcStream{calls, cancel}, err
		},
		"WebSocket": func() (stream, error) {
			socket, err := websocket.Dial("ws://"+address+":9080/echo", "", "http://"+address)
			return webSocket{socket}, err
		},
	} {
		s.clients.Go(func() { s.run(ctx, "long "+kind, 0, open) })
		for range 2 {
			s.clients.Go(func() { s.run(ctx, "short "+kind, 20, open) })
		}
	}
	return s
}

// run opens streams, one after the other, each for a number of messages; 0 is no end.
func (s *streamClients) run(ctx context.Context, kind string, messages int, open func() (stream, error)) {
	for ctx.Err() == nil {
		end := "done"
		if err := exchange(ctx, messages, open); err != nil {
			end = err.Error()
			<-time.After(100 * time.Millisecond)
		}
		s.mu.Lock()
		s.ends[kind+": "+end]++
		s.mu.Unlock()
	}
}

func exchange(ctx context.Context, messages int, open func() (stream, error)) error {
	stream, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer stream.close()
	for i := 0; messages == 0 || i < messages; i++ {
		if err := stream.echo(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

type grpcStream struct {
	calls  grpc.BidiStreamingClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]
	cancel context.CancelFunc
}

func (s grpcStream) close() { s.cancel() }

func (s grpcStream) echo() error {
	if err := s.calls.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) { // Recv has the reason of io.EOF
		return err
	}
	_, err := s.calls.Recv()
	if status.Convert(err).Message() == "bye" {
		return errBye
	}
	return err
}

type webSocket struct{ *websocket.Conn }

func (s webSocket) close() { s.Close() }

func (s webSocket) echo() error {
	sent := websocket.Message.Send(s.Conn, "hello")
	var message string
	if err := websocket.Message.Receive(s.Conn, &message); err != nil {
		return errors.Join(sent, err)
	}
	if message == "bye" {
		return errBye
	}
	return nil
}

// unharmed ends the clients, and fails the test with each stream that ended too early.
func (s *streamClients) unharmed(n *node) {
	n.t.Helper()
	s.stop()
	s.clients.Wait()
	n.t.Logf("clients without a sidecar: %v", s.ends)
	for _, kind := range []string{"gRPC stream", "WebSocket"} {
		if s.ends["short "+kind+": done"] < 10 {
			n.t.Errorf("%d short ones (%s) were done, want at least 10", s.ends["short "+kind+": done"], kind)
		}
		if s.ends["long "+kind+": bye"] < 1 {
			n.t.Errorf("no long %s lasted until the program said bye", kind)
		}
	}
	for end, count := range s.ends {
		if !strings.HasSuffix(end, ": done") && !(strings.HasPrefix(end, "long ") && strings.HasSuffix(end, ": bye")) {
			n.t.Errorf("%d × %s", count, end)
		}
	}
}
