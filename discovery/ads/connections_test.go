package ads

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Many connections that send nothing or have no stream do not keep a proxy out, and do not close the connection of a
// proxy that has a stream. Closed connections are not counted.
func TestConnectionsAreBounded(t *testing.T) {
	limits := testLimits()
	limits.Connections = 20
	log := &lockedBuffer{}
	s := New(limits, slog.New(slog.NewTextHandler(log, nil)))
	s.Push(adstest.Mesh(1, "a"), model.Change{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	r := &running{Server: s, t: t, log: log}
	dial := func() *grpc.ClientConn {
		client, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
	first := r.openOn(dial())
	first.ask(content.ClusterType)
	ended := make(chan error, 1)
	go func() { _, err := first.Recv(); ended <- err }()
	for i := range 8 * limits.Connections {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			newRawClient(t, conn, nil)
		case 1:
			t.Cleanup(func() { conn.Close() })
		default:
			conn.Close()
		}
	}
	for range limits.Connections / 2 {
		client := dial()
		r.openOn(client).ask(content.ClusterType)
		client.Close()
	}
	open := func() (n int) {
		s.connections.mu.Lock()
		defer s.connections.mu.Unlock()
		for _, a := range s.connections.open {
			if !a.closed(time.Now()) {
				n++
			}
		}
		return n
	}
	if n := open(); n > limits.Connections {
		t.Errorf("%d connections are open, want at most %d", n, limits.Connections)
	}
	select {
	case err := <-ended:
		t.Errorf("the first proxy lost its stream: %v", err)
	default:
	}
	if n := strings.Count(log.String(), fmt.Sprintf("too many connections, one is closed\" limit=%d", limits.Connections)); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, log)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	<-ended
}
