package status

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The owner's socket accepts the writes that the ports refuse, from its owner and root only.
func TestOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // of an agent that was killed
		t.Fatal(err)
	}
	var envoyIs atomic.Int64 // a pid
	envoyIs.Store(int64(os.Getpid()) + 1)
	listener, err := ListenOwner(Place{Path: path, Log: slog.New(slog.DiscardHandler), Refuse: func(pid int) error {
		if int64(pid) == envoyIs.Load() {
			return errors.New("own Envoy")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	envoy := transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("envoy")), Header: http.Header{}}, nil
	})
	c := configOf(t, serving())
	quits := make(chan struct{}, 2)
	c.Quit = func() { quits <- struct{}{} } // after its answer
	c.Log = slog.New(slog.DiscardHandler)
	server := NewFrontServer(Owner(c, func() http.RoundTripper { return envoy }), c.Log)
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) },
	}}
	for _, test := range []struct {
		method, url string
		status      int
	}{
		{"POST", "http://agent/quitquitquit", 200},
		{"GET", "http://agent/status", 200},
		{"GET", "http://agent/drain", 405},
		{"POST", "http://envoy/logging?level=debug", 200},
		{"POST", "http://envoy/quitquitquit", 403},
		{"GET", "http://envoy/stats", 200},
		{"POST", "http://elsewhere/quitquitquit", 404},
	} {
		request, err := http.NewRequest(test.method, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s %s: %v", test.method, test.url, err)
		}
		response.Body.Close()
		if response.StatusCode != test.status {
			t.Errorf("%s %s: %s, want %d", test.method, test.url, response.Status, test.status)
		}
	}
	envoyIs.Store(int64(os.Getpid())) // from now on this process is Envoy
	if response, err := client.Post("http://agent/quitquitquit", "", nil); err == nil {
		response.Body.Close()
		t.Errorf("the agent's own Envoy is served: %s", response.Status)
	}
	<-quits
	if len(quits) > 0 {
		t.Error("quit twice")
	}
	for uid, want := range map[uint32]bool{0: true, 1337: true, 1338: false} {
		if got := (&owned{uid: 1337}).lets(uid); got != want {
			t.Errorf("uid %d: %v, want %v", uid, got, want)
		}
	}
}
