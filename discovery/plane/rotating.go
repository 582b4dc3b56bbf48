package plane

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/keep"
)

const (
	lookAtRotation = time.Second      // how often it is asked whether a root is being rotated, and whether a step of that is due
	lookAtFiles    = 10 * time.Second // how often it is asked whether the files are still those of the authority
	longSleep      = 10 * time.Second // of a process that was stopped: another one may have begun and ended a rotation
)

// rotating is an authority of files, whose root may be rotated while it is served.
type rotating struct {
	dir     string
	terms   ca.Terms
	overlap time.Duration
	log     *slog.Logger
	changed func() error // is called after each step

	mu    sync.Mutex
	state keep.State
	fault string
	other string // how the files differ from the authority that is used; "" where they do not
}

func (r *rotating) now() keep.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *rotating) signing() *ca.Authority { return r.now().Authority }
func (r *rotating) own() *ca.Authority     { return r.now().Own }

// lines says how far a rotation is, and what is wrong with it.
func (r *rotating) lines() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.state.Rotation; at.Phase != "" {
		out = append(out, "the root of --caDir is being rotated, "+string(at.Phase)+": "+at.Waits)
	}
	if r.fault != "" {
		out = append(out, "the root of --caDir cannot be rotated: "+r.fault)
	}
	if r.other != "" {
		out = append(out, r.other)
	}
	return out
}

// compare looks whether the files are still those of the authority. Others are not used before a restart: agents may not trust their root yet.
func (r *rotating) compare(now time.Time) {
	found, err := keep.Read(r.dir, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.other
	switch r.other = ""; {
	case r.state.Rotation.Phase != "" || found.Rotation.Phase != "": // its steps read the files
	case err != nil:
		r.other = "the files of --caDir cannot be used, and a restart would fail; until then the authority of before signs: " + err.Error()
	case !found.Authority.Same(r.state.Authority):
		r.other = fmt.Sprintf("the files of --caDir have changed: %s with the root %.16s signs until a restart, and then %s with the root %.16s; "+
			"agents that do not trust that root by then refuse its certificates: docs/certificates.md has the order",
			r.state.Authority.Name(), r.state.Authority.Root(), found.Authority.Name(), found.Authority.Root())
	}
	if r.other != "" && r.other != was {
		r.log.Error("the files of --caDir are not those of the authority", "err", r.other)
	}
}

// run does the steps of rotations until ctx is done.
func (r *rotating) run(ctx context.Context, census func(roots []byte) (live, with int)) error {
	ticker := time.NewTicker(lookAtRotation)
	defer ticker.Stop()
	for last, looked := time.Now(), time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			before, now := r.now(), time.Now()
			slept := now.Round(0).Sub(last.Round(0)) > longSleep
			last = now
			o := ca.Observed{Most: r.terms.Most, Overlap: r.overlap}
			if before.Rotation.Phase != "" {
				o.Live, o.Both = census(before.Authority.Roots())
			}
			state, err := keep.Step(r.dir, o, now)
			if err == nil && state.Authority == nil && (slept || before.Rotation.Phase != "") { // it was aborted, or another process has ended it
				state, err = keep.Read(r.dir, now)
			}
			r.take(state, err)
			if now.Sub(looked) >= lookAtFiles {
				looked = now
				r.compare(now)
			}
		}
	}
}

// take uses what was read, if it is another state.
func (r *rotating) take(state keep.State, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	before, said := r.state, r.fault
	r.fault = text
	moved := err == nil && state.Authority != nil && !sameState(before, state)
	switch {
	case moved:
		r.state = state
	case err == nil && state.Authority != nil:
		r.state.Rotation.Waits = state.Rotation.Waits
	}
	r.mu.Unlock()
	if text != "" && text != said {
		r.log.Error("the root is not rotated, the authority of before is used", "err", text)
	}
	if !moved {
		return
	}
	r.log.Warn("the root is rotated", "was", before.Rotation.Phase, "phase", state.Rotation.Phase, "issuer", state.Authority.Name(), "waits", state.Rotation.Waits)
	if err := r.changed(); err != nil {
		r.log.Error("the secure port does not trust the roots of the authority", "err", err)
	}
}

// sameState reports whether two states sign, and trust, the same. A rotation that was aborted may be followed by another one in the same phase.
func sameState(a, b keep.State) bool {
	return a.Rotation.Phase == b.Rotation.Phase && a.Rotation.Old == b.Rotation.Old && a.Rotation.New == b.Rotation.New && a.Authority.Root() == b.Authority.Root()
}
