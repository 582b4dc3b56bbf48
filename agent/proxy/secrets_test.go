package proxy

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/e2e/lab"
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

// A certificate that begins later is served when it begins, at the moment from which the agent takes it for good: Envoy is given some seconds
// to present it, and else it is replaced.
func TestACertificateThatBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := lab.NewAuthority("root")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		s := &secrets{
			workload: cert.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")},
			server:   &sds.Server{Log: slog.New(slog.DiscardHandler)}, log: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ticks := make(chan struct{})
		var following sync.WaitGroup
		following.Go(func() { s.follow(ctx, ticks) })
		issue := func(serial int64, begins time.Duration) []byte {
			identity, err := authority.IssueWith("web", serial, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(begins) })
			if err == nil {
				err = errors.Join(os.WriteFile(s.workload.Chain, identity.Chain, 0o600), os.WriteFile(s.workload.Key, identity.Key, 0o600),
					os.WriteFile(s.workload.Roots, identity.Roots, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			ticks <- struct{}{}
			synctest.Wait()
			return identity.Chain
		}
		served := func(when string, want []byte) {
			t.Helper()
			if !bytes.Contains(s.server.Newest().Carried()[sds.Certificate], want) {
				t.Errorf("%s another certificate is served, or none", when)
			}
		}
		first := issue(1, 0)
		served("at first", first)
		second := issue(2, 10*time.Second)
		served("before the second one begins", first)
		<-time.After(10*time.Second + 10*time.Millisecond)
		synctest.Wait()
		served("when the second one has begun", second)
		cancel()
		following.Wait()
	})
}
