package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// TestServe starts the whole server on a directory, waits for it to be ready, and stops it as a signal does.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	object := "{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: a}}"
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(object), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusOK)
	s.stop(t)
}

// TestServePacesTheCollector: the heap of a small mesh may grow, and the collector is left alone where GOGC says how.
func TestServePacesTheCollector(t *testing.T) {
	gogc := func() uint64 {
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(now)
		return now[0].Value.Uint64()
	}
	before := gogc()
	for set, paced := range map[string]bool{"": true, "50": false} {
		t.Setenv("GOGC", set)
		s := startServe(t, "--configDir", t.TempDir())
		s.await(t, http.StatusOK)
		if got := gogc(); (got > before) != paced {
			t.Errorf("with GOGC=%q in the environment it is %d, was %d", set, got, before)
		}
		s.stop(t)
	}
	if got := gogc(); got != before {
		t.Errorf("GOGC is %d after the stop, was %d", got, before)
	}
}

// TestServeIsNotReadyWithoutItsDirectory: to proxies half a mesh is worse than none.
func TestServeIsNotReadyWithoutItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	s := startServe(t, "--configDir", dir)
	s.await(t, http.StatusServiceUnavailable)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.await(t, http.StatusOK)
	s.stop(t)
}

func TestServeNamesBusyPorts(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	var out strings.Builder
	address := busy.Addr().String()
	code := run(t.Context(), []string{"serve", "--configDir", ".", "--grpcAddr", address, "--httpAddr", address, "--monitoringAddr", ""}, nil, &out, &out)
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"--grpcAddr: listen tcp " + address, "--httpAddr: listen tcp " + address, "address already in use"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output %q, want it to say %q", &out, want)
		}
	}
}

// serving is a running server, known by its log alone.
type serving struct {
	web    string // its HTTP address
	cancel context.CancelFunc
	exit   <-chan int
}

func startServe(t *testing.T, args ...string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, stderr := io.Pipe()
	args = append([]string{"serve", "--grpcAddr", "127.0.0.1:0", "--httpAddr", "127.0.0.1:0", "--monitoringAddr", "127.0.0.1:0", "--logFormat", "json"}, args...)
	exit := make(chan int, 1)
	go func() {
		defer stderr.Close()
		exit <- run(ctx, args, nil, io.Discard, stderr)
	}()
	web, drained := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Msg, HTTPAddr string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				web <- line.HTTPAddr
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-drained })
	select {
	case address := <-web:
		return serving{address, cancel, exit}
	case code := <-exit:
		t.Fatalf("it ended with code %d", code)
	case <-time.After(10 * time.Second):
		t.Fatal("it does not say where it serves")
	}
	return serving{}
}

// await asks for readiness until it is as wanted.
func (s serving) await(t *testing.T, want int) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for got := 0; got != want; {
		response, err := http.Get("http://" + s.web + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		got = response.StatusCode
		select {
		case <-deadline:
			t.Fatalf("/ready is %d, want %d", got, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s serving) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	select {
	case code := <-s.exit:
		if code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it does not stop")
	}
}
