package relay

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/lastgood"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// What the agent says of a proxy is in the node of each of its streams, beside what Envoy says and instead of the same key, and nothing
// else of the request is another. A stream on which something else was said ends when there is news, and no other.
func TestSays(t *testing.T) {
	b := start(t)
	var says atomic.Pointer[map[string]string]
	say := func(said map[string]string) { says.Store(&said) }
	b.relay.config.Says = func() map[string]string { return *says.Load() }
	heard := make(chan *deltaAsk, 1)
	b.answer(func(s stub) error {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		heard <- r
		if err := s.Send(&deltaReply{TypeUrl: r.TypeUrl, Nonce: "1"}); err != nil {
			return err
		}
		return mute(s)
	})
	connect := func(want map[string]string) client {
		t.Helper()
		s := b.open()
		b.ask(s, lastgood.TypeCluster, func(r *deltaAsk) {
			r.Node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
				"NAMESPACE": structpb.NewStringValue("default"), "PILOTLIGHT_VERSION": structpb.NewStringValue("of the bootstrap"),
			}}
			r.Node.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: "1"}
			r.ResourceNamesSubscribe = []string{"a", "b"}
		})
		r := <-heard
		if r.Node.Id != "n" || r.Node.UserAgentName != "envoy" || r.Node.GetUserAgentVersion() != "1" || r.TypeUrl != lastgood.TypeCluster ||
			strings.Join(r.ResourceNamesSubscribe, " ") != "a b" {
			t.Errorf("the request is another: %v", r)
		}
		got := r.Node.Metadata.AsMap()
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s is %v, want %q", key, got[key], value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("the metadata is %v, want %v", got, want)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	say(map[string]string{"PILOTLIGHT_VERSION": "v1.2.3"})
	first := connect(map[string]string{"NAMESPACE": "default", "PILOTLIGHT_VERSION": "v1.2.3"})
	b.relay.Tell() // nothing is new, so the stream stays: that it ends later, and for the news, shows it
	say(map[string]string{"PILOTLIGHT_VERSION": "v1.2.3", "PILOTLIGHT_BYPASSED": "8080 10.0.0.7"})
	second := connect(map[string]string{"NAMESPACE": "default", "PILOTLIGHT_VERSION": "v1.2.3", "PILOTLIGHT_BYPASSED": "8080 10.0.0.7"})
	if n := len(b.streams()); n != 2 {
		t.Errorf("%d streams are open before there is news, want 2", n)
	}
	b.relay.Tell()
	if _, err := first.Recv(); err == nil || !strings.Contains(err.Error(), errNews.Error()) {
		t.Errorf("the stream with the old news ends with %v, want %v", err, errNews)
	}
	b.eventually(func() error {
		if streams := b.streams(); len(streams) != 1 || streams[0].said["PILOTLIGHT_BYPASSED"] == "" {
			return fmt.Errorf("the streams that stay are %v, want the second", streams)
		}
		return nil
	})
	say(map[string]string{})
	b.relay.Tell()
	if _, err := second.Recv(); err == nil || !strings.Contains(err.Error(), errNews.Error()) {
		t.Errorf("the other stream ends with %v, want %v", err, errNews)
	}
	connect(map[string]string{"NAMESPACE": "default", "PILOTLIGHT_VERSION": "of the bootstrap"})
}

func (b *bench) streams() (out []*stream) {
	b.relay.mu.Lock()
	defer b.relay.mu.Unlock()
	for s := range b.relay.streams {
		out = append(out, s)
	}
	return out
}

// swift is an Envoy that ACKs a response of that size at its last byte.
type swift struct {
	left int
	ack  func()
}

func (e *swift) Write(p []byte) (int, error) {
	if e.left -= len(p); e.left == 0 {
		e.ack()
	}
	return len(p), nil
}

// An ACK counts that comes before the response's last piece is flushed: net/http sends a large one at once.
func TestAnEarlyAck(t *testing.T) {
	dir := t.TempDir()
	store := lastgood.NewStore(dir, dir, nil, func(uint64) bool { return true }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	defer running.Wait()
	defer cancel()
	e := newEnvoy(1)
	session, _ := store.Session(1, lastgood.Header{Node: "n"}, nil)
	for _, typeURL := range []string{lastgood.TypeCluster, lastgood.TypeListener} {
		text := message(t, typeURL, "1", nil, "a")
		ack := func() { session.Request(lastgood.Request{Type: typeURL, Nonce: "1"}) }
		s := &stream{envoy: e, session: session, out: &swift{len(text) + frame.HeadSize, ack}, flush: func() error { return nil }}
		if err := s.copy(bytes.NewReader(text), len(text), make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
	// Two responses went out, each is answered once: accepted, or refused. Other requests answer none.
	for i, r := range []struct {
		lastgood.Request
		applying int
	}{
		{lastgood.Request{Type: lastgood.TypeCluster}, 2},
		{lastgood.Request{Type: lastgood.TypeCluster, Nonce: "1"}, 1},
		{lastgood.Request{Type: lastgood.TypeListener, Nonce: "1", Refused: true}, 0},
		{lastgood.Request{Type: lastgood.TypeListener, Nonce: "1"}, 0},
	} {
		if e.request(r.Request, time.Now()); e.state.Applying != r.applying {
			t.Errorf("request %d: %d responses are being applied, want %d", i, e.state.Applying, r.applying)
		}
	}
	if err := lab.Eventually(limit, func() error {
		_, err := os.Stat(filepath.Join(dir, lastgood.FileName("n")))
		return err
	}); err != nil {
		t.Errorf("an early ACK does not count: %v", err)
	}
}
