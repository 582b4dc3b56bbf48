package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const (
	startLimit    = 30 * time.Second
	handoverLimit = 30 * time.Second
	orphanLimit   = time.Second // that an Envoy may outlive its killed agent
)

// load sends a thousand requests a second and more, from clients with kept and with fresh connections, so that some are under way at
// each moment of a handover.
func (s *standalone) load() *lab.Load {
	return lab.StartLoad(s.address, "http://"+s.address+"/", 6, 6)
}

// lightLoad sends two hundred a second, for a test that mostly waits.
func (s *standalone) lightLoad() *lab.Load {
	return lab.StartSlowLoad(s.address, "http://"+s.address+"/", 2, 2, 20*time.Millisecond)
}

// handOver asks for a revision and waits until it serves alone.
func (s *standalone) handOver(revision int) {
	s.t.Helper()
	s.configure(revision)
	s.must(s.awaitRevision(revision, handoverLimit))
	s.must(s.awaitAlone(handoverLimit))
}

// overlap asks for a revision and waits until it serves and the one before it drains, which it does as long as a client
// keeps a connection.
func (s *standalone) overlap(revision int) {
	s.t.Helper()
	kept, err := net.Dial("tcp", s.address)
	s.must(err)
	s.t.Cleanup(func() { kept.Close() })
	s.configure(revision)
	s.must(s.awaitStatus(handoverLimit, "an overlap", func(a agentStatus) bool {
		return len(a.Epochs) == 2 && a.Epochs[0].State == "draining" && a.Epochs[1].State == "serving"
	}))
}

// Handovers in a row by hot restart, under load: no request fails. TestLongHandovers makes twenty.
func TestHandoverHot(t *testing.T) {
	t.Parallel()
	handOverInARow(t, 5, "hot")
}

// The same side by side, where the network namespace lets connections that wait for a closed listener move to
// another one: no request fails.
func TestHandoverSideBySideWithMigration(t *testing.T) {
	t.Parallel()
	handOverWithMigration(t, 5)
}

func handOverWithMigration(t *testing.T, times int) {
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1")
		handOverInARow(t, times, "side-by-side")
	})
}

func handOverInARow(t *testing.T, times int, handover string) {
	s := startStandalone(t, "--handover", handover)
	load := s.load()
	for i := range times {
		s.handOver(2 + i)
	}
	lab.Unharmed(t, load)
	a, err := s.ask()
	s.must(err)
	if got := a.Counts["handed over to a newcomer"]; got != times {
		t.Errorf("%d handovers, want %d: %+v", got, times, a.Counts)
	}
}

// Without that, fresh connections may be reset in the old listener's queue: how many is counted and told.
func TestHandoverSideBySide(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--handover", "side-by-side")
	load := s.load()
	for revision := 2; revision <= 6; revision++ {
		s.handOver(revision)
	}
	requests, failures := load.Stop()
	t.Logf("%d requests, %d failed: %q", requests, len(failures), failures)
	for _, failure := range failures {
		if !strings.HasSuffix(failure, "connection reset by peer") {
			t.Errorf("a request failed otherwise: %s", failure)
		}
	}
	if bound := requests / 100; int64(len(failures)) > bound {
		t.Errorf("%d of %d requests failed, want at most one in a hundred", len(failures), requests)
	}
}

// A newcomer that fails harms nobody: its parent serves on, the status says why, and the next good one takes over.
func TestHandoverRollsBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		mutate func(string) string
		want   string // of the refusal
		starts int    // of Envoys until then: what a check refuses is not even started
	}{
		{"exits at once", func(text string) string {
			return strings.Replace(text, `"id": "standalone"`, `"id": "out of luck"`, 1)
		}, "newcomer failed: exit status 7: out of luck", 4},
		{"is never live", func(text string) string {
			return strings.Replace(text, `"static_resources"`, `"dynamic_resources": {"cds_config": {"resource_api_version": "V3",
				"initial_fetch_timeout": "0s", "api_config_source": {"api_type": "GRPC", "transport_api_version": "V3",
				"grpc_services": [{"envoy_grpc": {"cluster_name": "program"}}]}}}, "static_resources"`, 1)
		}, "could not take over: CDS has not answered", 1},
		{"is invalid", func(text string) string {
			return strings.Replace(text, `"node"`, `"nodde"`, 1)
		}, "nodde", 1},
		{"is half-written", func(text string) string { return text[:len(text)/2] }, "validate", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startStandalone(t, "--binaryPath", unlucky(t))
			load := s.lightLoad()
			serving := s.pid("serving")
			s.mutate = test.mutate
			s.configure(2)
			s.must(s.awaitStatus(60*time.Second, "a refusal with "+test.want, func(a agentStatus) bool {
				return a.Refusal != nil && strings.Contains(a.Refusal.Reason, test.want)
			}))
			s.must(s.awaitRevision(1, time.Second))
			a, err := s.ask()
			s.must(err)
			if got := a.Counts["starting Envoy"]; got != test.starts {
				t.Errorf("%d Envoys were started, want %d", got, test.starts)
			}
			if pid := s.pid("serving"); pid != serving {
				t.Errorf("process %d serves, want still %d", pid, serving)
			}
			s.mutate = nil
			s.handOver(3)
			lab.Unharmed(t, load)
		})
	}
}

// unlucky returns an Envoy that exits at once when its bootstrap says so, but validates it.
func unlucky(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy")
	script := fmt.Sprintf("#!/bin/sh\n"+
		`[ "$1" != --config-path ] || ! grep -q "out of luck" "$2" || { echo "out of luck" >&2; exit 7; }`+
		"\nexec %s \"$@\"\n", lab.Envoy())
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A newcomer killed at any moment before it is live: no request fails, and the configuration arrives all the same.
// TestLongHandovers kills ten.
func TestHandoverNewcomerKilled(t *testing.T) {
	t.Parallel()
	killNewcomers(t, 4)
}

func killNewcomers(t *testing.T, times int) {
	s := newStandalone(t)
	s.mutate = func(text string) string {
		return strings.Replace(text, `"clusters": [`, `"clusters": [`+ballast(250), 1)
	}
	s.configure(1)
	s.launch("--handover", "hot")
	s.must(s.awaitRevision(1, handoverLimit))
	s.must(s.awaitAlone(handoverLimit))
	load := s.lightLoad()
	for revision := 2; revision < 2+times; revision++ {
		s.configure(revision)
		s.must(s.awaitStatus(handoverLimit, "a newcomer", func(a agentStatus) bool {
			return len(a.Epochs) == 2 && a.Epochs[1].State == "starting" && a.Epochs[1].Pid != 0
		}))
		delay := time.Duration(rand.IntN(100)) * time.Millisecond // long before that many clusters are ready
		<-time.After(delay)
		if a, err := s.ask(); err == nil && len(a.Epochs) == 2 && a.Epochs[1].State == "starting" {
			signal, pid := syscall.SIGKILL, a.Epochs[1].Pid
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			if s.accepts(s.ConfigPath, pid) {
				signal = syscall.SIGCONT // since the answer
			}
			_ = syscall.Kill(pid, signal)
		}
		s.must(s.awaitRevision(revision, handoverLimit))
		s.must(s.awaitAlone(handoverLimit))
	}
	lab.Unharmed(t, load)
	a, err := s.ask()
	s.must(err)
	killed := a.Counts["a newcomer failed, its parent serves on"]
	t.Logf("%d of %d were killed before they were live", killed, times)
	if killed < times/2 {
		t.Error("too few newcomers were killed before they were live: the test shows little")
	}
}

// ballast is as many clusters, which keep Envoy busy before it is live.
func ballast(clusters int) string {
	var text strings.Builder
	for i := range clusters {
		fmt.Fprintf(&text, `{"name": "ballast%d", "load_assignment": {"cluster_name": "ballast%[1]d", "endpoints": [{"lb_endpoints": [
			{"endpoint": {"address": %s}}]}]}}, `, i, lab.SocketAddress("127.0.0.1:9"))
	}
	return text.String()
}

// A process that is stopped in a handover, whichever it is, is dealt with in bounded time, and said.
func TestHandoverStopped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		blow  func(s *standalone)
		count string
	}{
		{"the parent, just before", func(s *standalone) {
			s.must(syscall.Kill(s.pid("serving"), syscall.SIGSTOP))
			s.configure(2)
		}, "Envoy hangs"},
		{"the parent, in the overlap", func(s *standalone) {
			s.overlap(2)
			s.must(syscall.Kill(s.pid("draining"), syscall.SIGSTOP))
		}, "Envoy has outstayed its time"},
		{"the newcomer, before it is live", func(s *standalone) {
			s.mutate = func(text string) string {
				return strings.Replace(text, `"clusters": [`, `"clusters": [`+ballast(250), 1)
			}
			s.configure(2)
			// At once: it may be live before a second look.
			s.must(s.awaitStatus(handoverLimit, "a newcomer that is stopped", func(a agentStatus) bool {
				return len(a.Epochs) == 2 && a.Epochs[1].Pid != 0 && syscall.Kill(a.Epochs[1].Pid, syscall.SIGSTOP) == nil
			}))
		}, "Envoy hangs"},
		{"the newcomer, in the overlap", func(s *standalone) {
			s.overlap(2)
			s.must(syscall.Kill(s.pid("serving"), syscall.SIGSTOP))
		}, "Envoy hangs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startStandalone(t, "--parentShutdownDuration", "8s") // in which a parent is struck, however late the test sees it
			test.blow(s)
			s.must(s.awaitRevision(2, 30*time.Second))
			s.must(s.awaitAlone(30 * time.Second))
			a, err := s.ask()
			s.must(err)
			if a.Counts[test.count] == 0 {
				t.Errorf("it is not said that %q: %v", test.count, a.Counts)
			}
			s.handOver(3)
		})
	}
}
