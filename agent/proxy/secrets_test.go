package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
)

// A file of Envoy's subscriptions is logged when it changes, and is on the status port unless it is in a set of the
// proxy.
func TestSecretsAreReported(t *testing.T) {
	var log bytes.Buffer
	s := &secrets{log: slog.New(slog.NewTextHandler(&log, nil))}
	if got := s.certificates(nil); got != nil {
		t.Errorf("before the first look: %+v", got)
	}
	ends := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	good := sds.Seen{Files: cert.Files{Chain: "/a", Key: "/k"}, Info: cert.Info{Serial: "01", NotAfter: ends}}
	rotated := good
	rotated.Info.Serial = "02"
	bad := good
	bad.Fault = "is missing"
	for i, step := range []struct {
		seen sds.Seen
		want string // in the log
	}{
		{good, "certificate served"}, {good, ""}, {rotated, "serial=02"}, {bad, "is missing"}, {bad, ""}, {good, "certificate served"},
	} {
		log.Reset()
		s.report([]sds.Seen{step.seen})
		if got := log.String(); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("step %d: log %q, want %q", i, got, step.want)
		}
	}
	s.report([]sds.Seen{good, {Files: cert.Files{Roots: "/r"}, Fault: "is missing"}, {Files: cert.Files{Roots: "/own"}}})
	got := s.certificates([]status.Certificate{{Path: "/own"}})
	if len(got) != 2 || got[0].Path != "/a" || got[0].Serial != "01" || !got[0].NotAfter.Equal(ends) || got[1].Path != "/r" || got[1].Fault != "is missing" || got[1].NotAfter != nil {
		t.Errorf("on the status port: %+v", got)
	}
}
