package cert

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A default directory of certificates that is missing at the start is no fault, and is read once it exists.
func TestCertificatesThatComeLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	in := func(name string) string { return filepath.Join(dir, name) }
	set := &Set{
		Files: Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}, Optional: true,
	}
	f := Follower{Recheck: time.Minute, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ticks := make(chan struct{})
	var rotating sync.WaitGroup
	rotating.Go(func() { f.Follow(ctx, set, ticks, make(chan string)) })
	defer func() { cancel(); rotating.Wait() }()

	tick := func() {
		t.Helper()
		select {
		case ticks <- struct{}{}:
		case <-time.After(30 * time.Second):
			t.Fatal("nobody looks at the directory any more")
		}
	}
	tick() // another file has changed
	tick()
	if fault := set.Fault(); fault != "" || set.Seen() != nil {
		t.Errorf("while there is no directory: fault %q, want none", fault)
	}
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := authority.Issue("workload", 1001)
	if err == nil {
		err = identity.Mount(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	tick()
	err = lab.Eventually(10*time.Second, func() error {
		if seen := set.Seen(); seen == nil || len(seen.Infos) == 0 {
			return context.DeadlineExceeded
		}
		return nil
	})
	if err != nil {
		t.Errorf("the certificates are not looked at: %v, fault %q", err, set.Fault())
	}
	if fault := set.Fault(); fault != "" {
		t.Errorf("fault %q, want none", fault)
	}
}
