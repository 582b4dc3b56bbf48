package cert

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// No answer of Envoy, as in a handover, is no proof: otherwise the change of a root bundle would be lost.
func TestNoAnswerProvesNoRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := Proof{Presented: func(context.Context) ([]string, bool) { return nil, false }, Log: slog.New(slog.DiscardHandler)}
		same := Observation{Infos: []Info{{Serial: "03e9"}}}
		if p.Taken(t.Context(), same, same) {
			t.Error("taken, though nobody said so")
		}
		if waited := time.Since(began); waited < proofLimit || waited > 2*proofLimit {
			t.Errorf("given up after %s, want about %s", waited, proofLimit)
		}
	})
}

// A certificate that only the agent shows, for a stream of Envoy's that it passes on, is told of like one of Envoy's.
func TestARotationThatTheAgentShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := Proof{
			Presented: func(context.Context) ([]string, bool) { return nil, true }, Shown: func() string { return "03ea" },
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		if !p.Taken(t.Context(), Observation{Infos: []Info{{Serial: "03e9"}}}, Observation{Infos: []Info{{Serial: "03ea"}}}) {
			t.Error("not taken")
		}
		if !strings.Contains(log.String(), `msg="certificate rotated" serial=03ea`) {
			t.Errorf("the log does not say so: %s", &log)
		}
	})
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name     string
		question question
		want     verdict
	}{
		{"no answer yet", question{old: "1", new: "2"}, undecided},
		{"no answer in time", question{old: "1", new: "2", late: true}, silent},
		{"it presents both", question{old: "1", new: "2", presented: []string{"1", "2"}, answered: true}, taken},
		{"it presents the old one, yet", question{old: "1", new: "2", presented: []string{"1"}, answered: true}, undecided},
		{"it presents the old one still", question{old: "1", new: "2", presented: []string{"1"}, answered: true, late: true}, refused},
		{"it may be between the two", question{old: "1", new: "2", presented: []string{"7"}, answered: true}, undecided},
		{"it has no use for these files", question{old: "1", new: "2", presented: []string{"7"}, answered: true, late: true}, taken},
		{"its key or the roots have changed", question{old: "1", new: "1", presented: []string{"1"}, answered: true}, unproven},
		{"those of files that it has no use for", question{old: "1", new: "1", presented: []string{"7"}, answered: true}, taken},
	} {
		if got := test.question.verdict(); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
