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

// A socket whose file is removed, replaced or moved away is opened again, and one that is in its place is not. Open connections stay.
func TestLasting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slot")
	path := filepath.Join(dir, "socket")
	make := func() error { return os.MkdirAll(dir, 0o700) }
	if err := make(); err != nil {
		t.Fatal(err)
	}
	socket, err := openSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newLasting(socket, Place{Path: path, Remake: make, Log: slog.New(slog.DiscardHandler)})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	echoes := func(conn net.Conn) {
		t.Helper()
		text := []byte("x")
		_, err1 := conn.Write(text)
		if _, err2 := io.ReadFull(conn, text); err1 != nil || err2 != nil {
			t.Errorf("no echo: %v, %v", err1, err2)
		}
	}
	kept := dial()
	for _, test := range []struct {
		name  string
		harm  func() error
		again bool
	}{
		{"nothing", func() error { return nil }, false},
		{"its mode", func() error { return os.Chmod(path, 0o666) }, false},
		{"the file is removed", func() error { return os.Remove(path) }, true},
		{"nothing since", func() error { return nil }, false},
		{"the directory is removed", func() error { return os.RemoveAll(dir) }, true},
		{"the directory is moved away", func() error { return os.Rename(dir, dir+"-aside") }, true},
		{"another directory is in its place", func() error {
			return errors.Join(os.Rename(dir, dir+"-aside-2"), os.Mkdir(dir, 0o700), os.WriteFile(path, nil, 0o600))
		}, true},
	} {
		if err := test.harm(); err != nil {
			t.Fatal(err)
		}
		if again, err := l.look(); again != test.again || err != nil {
			t.Errorf("%s: opened again %t, want %t: %v", test.name, again, test.again, err)
		}
		echoes(dial())
		echoes(kept)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("its file is left")
	}
}
