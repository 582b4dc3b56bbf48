package relay

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/lastgood"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

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
