package ads

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// maxUnderAttack is how much resident memory discovery may have under an attack, in MiB. A Pod of deploy/kubernetes has
// a limit of 1,024.
const maxUnderAttack = 300

// Clients without a certificate that announce large requests and hold them back, or that send large nodes, and come
// again when they are cut off: discovery's memory is bounded, and an Envoy that starts meanwhile gets its configuration.
// TestLongRequestsThatAreHeldBack attacks for longer, with both variants for each attack.
func TestRequestsThatAreHeldBack(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.strike(t, a.variant, 5*time.Second) }) // in which those that hold back are cut off
	}
}

var attacks = []attack{
	{"the last byte of 4 MiB", "sotw", 22, holdBack},
	{"nodes of 3.2 MB", "delta", 10, sendNodes},
}

// attack is something that so many clients do to discovery again and again.
type attack struct {
	name    string
	variant string // of the Envoy that starts meanwhile
	clients int
	run     func(ctx context.Context, address string)
}

// strike attacks for some time, and until an Envoy that starts meanwhile is ready.
func (a attack) strike(t *testing.T, variant string, lasts time.Duration) {
	l := newEnvoyLab(t, variant)
	ctx, cancel := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer cancel()
	for range a.clients {
		attackers.Go(func() {
			for ctx.Err() == nil {
				a.run(ctx, l.Discovery.GRPC)
			}
		})
	}
	before, most := lab.RSS(l.Discovery.Pid), int64(0)
	ready := make(chan struct{})
	end := time.After(lasts)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	e := l.launch(0)
	go func() {
		defer close(ready)
		if err := e.AwaitHTTP(40*time.Second, "http://"+e.admin+"/ready"); err != nil {
			t.Errorf("an Envoy that starts meanwhile: %v", err)
		}
	}()
	for waits, attacked := true, true; waits || attacked; {
		select {
		case <-tick.C:
			most = max(most, lab.RSS(l.Discovery.Pid))
		case <-ready:
			waits, ready = false, nil
		case <-end:
			attacked = false
		}
	}
	t.Logf("resident: %d MiB before, at most %d under attack", before>>20, most>>20)
	if most>>20 > maxUnderAttack {
		t.Errorf("%d MiB resident, want at most %d", most>>20, maxUnderAttack)
	}
}

// holdBack announces 4 MiB on 15 streams and sends all but the last byte of each, until it is cut off.
func holdBack(ctx context.Context, address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	c := &holder{Framer: http2.NewFramer(conn, conn), streams: map[uint32]*held{}}
	c.moved = sync.NewCond(&c.mu)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil || c.WriteSettings() != nil {
		return
	}
	for i := range uint32(15) {
		c.open(2*i+1, "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.send()
	}()
	c.read()
	<-done
}

// holder is a client of HTTP/2 that keeps to the windows of the server, so that it is not cut off for those.
type holder struct {
	*http2.Framer
	mu      sync.Mutex
	moved   *sync.Cond
	window  int
	streams map[uint32]*held
	gone    bool
}

type held struct {
	window int
	left   []byte
}

func (c *holder) open(id uint32, path string) {
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	const size = 4 << 20
	message := append(binary.BigEndian.AppendUint32([]byte{0}, size), make([]byte, size-1)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window = 65535
	c.streams[id] = &held{65535, message}
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndHeaders: true})
}

// send sends what the windows allow, until the connection ends.
func (c *holder) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.gone {
		sent := false
		for id, s := range c.streams {
			if n := min(len(s.left), s.window, c.window, 16<<10); n > 0 {
				part := s.left[:n]
				s.left, s.window, c.window, sent = s.left[n:], s.window-n, c.window-n, true
				c.mu.Unlock()
				err := c.WriteData(id, false, part)
				c.mu.Lock()
				if err != nil {
					return
				}
			}
		}
		if !sent && !c.gone {
			c.moved.Wait()
		}
	}
}

func (c *holder) read() {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = true
		c.moved.Broadcast()
	}()
	first := 65535
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if size, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for _, s := range c.streams {
					s.window += int(size) - first
				}
				first = int(size)
			}
		case *http2.WindowUpdateFrame:
			if s := c.streams[f.StreamID]; s != nil {
				s.window += int(f.Increment)
			} else if f.StreamID == 0 {
				c.window += int(f.Increment)
			}
		}
		c.moved.Broadcast()
		c.mu.Unlock()
	}
}

// sendNodes sends a node of 3.2 MB on 15 streams, and keeps them open until they are refused.
func sendNodes(ctx context.Context, address string) {
	conn, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return
	}
	defer conn.Close()
	node := &corev3.Node{
		Id: "sidecar~10.1.1.1~app.default~default.svc.cluster.local",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"LABELS": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"app": structpb.NewStringValue(strings.Repeat("x", 3_200_000)),
			}}),
		}},
	}
	var streams sync.WaitGroup
	defer streams.Wait()
	for range 15 {
		streams.Go(func() {
			s, err := discoverypb.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
			if err == nil && s.Send(&discoverypb.DiscoveryRequest{Node: node, TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}) == nil {
				for err == nil {
					_, err = s.Recv()
				}
			}
		})
	}
}
