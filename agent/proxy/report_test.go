package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// What a proxy waited for in vain is kept until it is ready for the first time, and is not replaced by its stop.
func TestReportNotesWhyItWasNeverReady(t *testing.T) {
	r := &report{}
	says := func(want string) {
		t.Helper()
		got := ""
		if why := r.unready.Load(); why != nil {
			got = *why
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r.note(false, "before the supervisor runs")
	says("")
	r.supervisor.Store(&agent.Status{})
	r.note(false, "first")
	r.note(false, "CDSReceived: connection refused")
	says("CDSReceived: connection refused")
	r.supervisor.Store(&agent.Status{Stopping: true})
	r.note(false, "stopping")
	says("CDSReceived: connection refused")

	r = &report{}
	r.supervisor.Store(&agent.Status{})
	r.note(false, "first")
	r.note(true, "")
	r.note(false, "later")
	says("")
}

// A certificate ends with the first one of its chain, in status and in the metric to which an alert looks: when an issuer has ended, nobody
// takes the leaf.
func TestTheEndOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, err := lab.NewAuthority("root") // for an hour
		if err != nil {
			t.Fatal(err)
		}
		ends := time.Now().Add(time.Hour)
		identity, err := root.IssueWith("web", 7, func(c *x509.Certificate) { c.NotAfter = ends.Add(90 * 24 * time.Hour) })
		if err != nil {
			t.Fatal(err)
		}
		chain := append(identity.Chain, identity.Roots...)
		dir := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		set := &cert.Set{Files: cert.Files{Chain: in("chain"), Key: in("key"), Roots: in("roots")}}
		err = errors.Join(os.WriteFile(set.Chain, chain, 0o600), os.WriteFile(set.Key, identity.Key, 0o600), os.WriteFile(set.Roots, identity.Roots, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() {
			cert.Follower{Recheck: recheck, Log: slog.New(slog.DiscardHandler)}.Follow(ctx, set, nil, nil)
		})
		synctest.Wait()
		if got := certificateOf(set, time.Time{}); len(got) != 1 || got[0].Fault != "" || got[0].NotAfter == nil || !got[0].NotAfter.Equal(ends) {
			t.Errorf("got %+v, want an end at %v", got, ends)
		}
		cancel()
		following.Wait()
		s := &secrets{log: slog.New(slog.DiscardHandler)}
		info, err := cert.Check(chain, identity.Key, identity.Roots, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s.report([]sds.Seen{{Files: set.Files, Info: info}})
		if got := s.certificates(nil); len(got) != 1 || !got[0].NotAfter.Equal(ends) {
			t.Errorf("of a subscription: %+v, want an end at %v", got, ends)
		}
	})
}
