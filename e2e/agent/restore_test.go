package agent

import (
	"net"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Newcomers that end after they have closed their parent's admin: the parent is replaced by an Envoy of its own configuration, so that
// metrics and readiness go on. A static listener on a busy port passes every check before.
func TestFailedNewcomersLeaveAnAdmin(t *testing.T) {
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1") // side by side loses nothing
		s := startStandalone(t)
		load := s.lightLoad()
		s.wantsABusyPort()
		s.configure(2)
		s.must(s.awaitStatus(startLimit*2, "a refusal, and one epoch that has an admin", func(a agentStatus) bool {
			_, err := lab.Get("http://" + s.Admin + "/stats?filter=^server.state$")
			return err == nil && a.Refusal != nil && strings.Contains(a.Refusal.Reason, "Address already in use") &&
				len(a.Epochs) == 1 && a.Epochs[0].State == "serving" && a.Ready
		}))
		s.must(s.awaitRevision(1, startLimit))
		if a, err := s.ask(); err != nil || a.Counts["an Envoy with the same configuration has replaced one without its admin"] != 1 {
			t.Errorf("counts are %v, %v", a.Counts, err)
		}
		s.mutate = nil
		s.handOver(3)
		lab.Unharmed(t, load)
	})
}

// The same beside a request on an older Envoy, which is not cut: neither by the newcomers that fail, nor by the one that then takes over.
func TestFailedNewcomersBesideALongRequest(t *testing.T) {
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) {
		lab.WriteSysctl(t, "net/ipv4/tcp_migrate_req", "1")
		s := startStandalone(t, "--parentShutdownDuration", "120s", "--drainDuration", "1s")
		answered := s.hold()
		s.awaitInFlight(1)
		s.handsOver(2)
		load := s.lightLoad()
		s.wantsABusyPort()
		s.configure(3)
		s.must(s.awaitStatus(startLimit*2, "a refusal, and an epoch that has an admin", func(a agentStatus) bool {
			_, err := lab.Get("http://" + s.Admin + "/stats?filter=^server.state$")
			return err == nil && a.Refusal != nil && strings.Contains(a.Refusal.Reason, "Address already in use") && len(a.Epochs) == 2 && a.Ready
		}))
		s.must(s.awaitRevision(2, startLimit))
		select {
		case err := <-answered:
			t.Fatalf("the request was answered before its program did: %v", err)
		default:
		}
		close(s.program.held)
		s.must(<-answered)
		s.must(s.awaitAlone(handoverLimit))
		lab.Unharmed(t, load)
	})
}

// wantsABusyPort adds a static listener to the next configurations whose port another process has. It passes every check before the start.
func (s *standalone) wantsABusyPort() {
	s.t.Helper()
	thief, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.t.Cleanup(func() { thief.Close() })
	s.mutate = func(text string) string {
		return strings.Replace(text, `"listeners": [{`, `"listeners": [{"name": "busy", "address": `+lab.SocketAddress(thief.Addr().String())+
			`, "filter_chains": [{"filters": []}]}, {`, 1)
	}
}
