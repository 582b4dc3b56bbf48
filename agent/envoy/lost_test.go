package envoy

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

func TestSettled(t *testing.T) {
	refused := health.Rejection{Text: "no", At: time.Unix(100, 0)}
	for _, test := range []struct {
		name    string
		updates health.Updates
		delta   bool
		want    bool
	}{
		{"nothing yet", health.Updates{}, false, true},
		{"accepted", health.Updates{Success: 1}, true, true},
		{"refused", health.Updates{Rejected: 1, Rejection: refused}, false, false},
		{"refused, then accepted", health.Updates{Rejected: 1, Rejection: refused, Accepted: time.Unix(101, 0)}, false, true},
		{"refused after it was accepted", health.Updates{Rejected: 1, Rejection: refused, Accepted: time.Unix(99, 0)}, false, false},
		{"delta: refused, then others accepted", health.Updates{Rejected: 1, Rejection: refused, Accepted: time.Unix(101, 0)}, true, false},
		{"delta: refused, then mended", health.Updates{Rejected: 1, Rejection: refused, Mended: true}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := settled(test.updates, test.delta); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// A port in use is not tried for ever by name of nobody: the process is named, and the port is free when it has gone.
func TestCanListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := netip.MustParseAddrPort(l.Addr().String())
	if canListen(address) {
		t.Error("it could listen at a port in use")
	}
	if got := procnet.TakerOf(address); !strings.HasPrefix(got, "process ") || !strings.HasSuffix(got, ") does") {
		t.Errorf("the port is taken: %q", got)
	}
	must(t, l.Close())
	if !canListen(address) {
		t.Error("it could not listen at a free port")
	}
}
