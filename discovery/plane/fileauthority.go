package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/store"
)

const (
	lookAtRotation = time.Second      // how often it is asked whether a root is being rotated, and whether a step of that is due
	lookAtFiles    = 5 * time.Second  // how often it is asked whether the files are still those of the authority: less than the slack of a rotation
	longSleep      = 10 * time.Second // of a process that was stopped: another one may have begun and ended a rotation
)

// fileAuthority is an authority of files, whose root may be rotated while it is served, and whose files may be
// replaced.
type fileAuthority struct {
	dir     string
	terms   ca.Terms
	overlap time.Duration
	log     *slog.Logger
	changed func() error // is called after each step

	copies         string  // directory of the copy; "" without --stateDir
	copied, stored ca.Copy // what follows the files, and what was written of it last
	began          time.Time

	mu       sync.Mutex
	state    store.State
	fault    string
	other    string // why the files are not used; "" where they are, or where a rotation leads to them
	uncopied string // why there is no copy; "" where there is one, or where none is wanted
	unused   string // why the copy of an earlier run was not used
}

var errNoCopies = errors.New("there is no --stateDir")

// open takes the copy of an earlier run up.
func (r *fileAuthority) open(now time.Time) {
	r.began = now
	if r.copies != "" {
		var err error
		if r.copied, err = store.ReadCopy(r.copies, now); err != nil {
			r.unused = "the copy of the authority in --stateDir is not used, so the files of --caDir sign: if they have changed since the last start, " +
				"agents that do not trust their root refuse its certificates for up to " + r.terms.Most.String() + ": " + err.Error()
			r.log.Error("copy of the authority not used", "err", err)
		}
		r.stored = r.copied
	}
	if r.state.Rotation.Phase == "" || r.copied.Rotation.Phase != "" {
		r.follow(r.observed(), now)
	}
}

func (r *fileAuthority) now() store.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

func (r *fileAuthority) signing() *ca.Authority { return r.now().Authority }
func (r *fileAuthority) own() *ca.Authority     { return r.now().Own }

// lines says how far a rotation is, and what is wrong with it.
func (r *fileAuthority) lines() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.state.Rotation; at.Phase != "" {
		out = append(out, "the root of --caDir is being rotated, "+string(at.Phase)+": "+at.Waits)
	}
	if r.fault != "" {
		out = append(out, "the root of --caDir cannot be rotated: "+r.fault)
	}
	for _, text := range []string{r.other, r.uncopied} {
		if text != "" {
			out = append(out, text)
		}
	}
	if r.unused != "" && time.Since(r.began) <= r.terms.Most { // a leaf of then may live
		out = append(out, r.unused)
	}
	return out
}

func (r *fileAuthority) observed() ca.Observed {
	return ca.Observed{Most: r.terms.Most, Overlap: r.overlap}
}

// follow looks whether the files are still those of the authority. Others are used as ca.Copy.Follow decides. What
// begins a rotation, or is a step of it, counts when it is stored: after a restart the new root would sign too early,
// or the old one too late.
func (r *fileAuthority) follow(o ca.Observed, now time.Time) {
	files, last, err := store.Find(r.dir, now)
	next, other := r.copied, ""
	if err == nil || r.copied.Rotation.Phase != "" {
		var fault error
		if next, fault = r.copied.Follow(files, last, o, now); err == nil {
			err = fault
		}
	}
	if err != nil {
		other = "the files of --caDir cannot be used, so the authority in use signs on: " + err.Error()
	}
	stored := r.store(next, now)
	if stored != nil && next.Rotation.Phase != "" && !next.Same(r.copied) {
		way := "the rotation waits until it can be stored: " + stored.Error()
		if errors.Is(stored, errNoCopies) {
			way = "the new one signs at once after a restart, when agents do not trust it yet, since there is no --stateDir for the rotation: docs/certificates.md has the order"
		}
		other = fmt.Sprintf("the files of --caDir lead to another root, %.16s, and %.16s signs: %s", next.Rotation.New, next.Rotation.Old, way)
		next = r.copied
	}
	r.copied = next
	r.copied.Seen = now
	if errors.Is(stored, errNoCopies) {
		stored = nil
	}
	r.tell(&r.other, "the files of --caDir are not those of the authority", other)
	text := ""
	if stored != nil {
		text = "the authority has no copy in --stateDir, by which trust would come before leaves if the files of --caDir changed: " + stored.Error()
	}
	r.tell(&r.uncopied, "authority not copied", text)
	if state, err := next.State(now); err == nil {
		r.take(store.State(state), nil)
	}
}

// tell makes text the fault, and logs it if it is another one.
func (r *fileAuthority) tell(fault *string, message, text string) {
	r.mu.Lock()
	before := *fault
	*fault = text
	r.mu.Unlock()
	if text != "" && text != before {
		r.log.Error(message, "err", text)
	}
}

// store writes the copy where it signs, or trusts, anything else than the one that was written last, and so often that
// its age tells whether a leaf of it lives.
func (r *fileAuthority) store(next ca.Copy, now time.Time) error {
	if r.copies == "" {
		return errNoCopies
	}
	if again := max(time.Second, next.Most/8); next.Same(r.stored) && next.Seen.Sub(r.stored.Seen) < again {
		return nil
	}
	err := store.WriteCopy(r.copies, next)
	if err == nil {
		r.stored = next
	}
	return err
}

// run does the steps of rotations until ctx is done.
func (r *fileAuthority) run(ctx context.Context, issued func(roots []byte) (live, with int)) error {
	ticker := time.NewTicker(lookAtRotation)
	defer ticker.Stop()
	for last, looked := time.Now(), time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			now := time.Now()
			slept := now.Round(0).Sub(last.Round(0)) > longSleep
			last = now
			if r.look(issued, now, slept || now.Sub(looked) >= lookAtFiles) {
				looked = now
			}
		}
	}
}

// look does what is due of a rotation, of discovery's own root or to other files, and reports whether it has compared
// the files.
func (r *fileAuthority) look(issued func(roots []byte) (live, with int), now time.Time, compare bool) bool {
	before, o := r.now(), r.observed()
	if before.Rotation.Phase != "" {
		o.Live, o.Both = issued(before.Authority.Roots())
	}
	own := before.Rotation.Phase != "" && r.copied.Rotation.Phase == ""
	if r.copied.Rotation.Phase == "" { // a rotation of the own root waits until the one to other files has ended
		state, err := store.Step(r.dir, o, now)
		if err != nil || state.Rotation.Phase != "" {
			r.take(state, err)
			return false
		}
		r.take(store.State{}, nil)
	}
	if own { // it has ended, or was aborted: the files are what it has led to
		r.copied = ca.Copy{}
	}
	if own || compare || r.copied.Rotation.Phase != "" {
		r.follow(o, now)
		return true
	}
	return false
}

// take uses what was read, if it is another state.
func (r *fileAuthority) take(state store.State, err error) {
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
	r.log.Warn("another authority is used", "was", before.Rotation.Phase, "phase", state.Rotation.Phase, "issuer", state.Authority.Name(), "waits", state.Rotation.Waits)
	if err := r.changed(); err != nil {
		r.log.Error("the secure port does not trust the roots of the authority", "err", err)
	}
}

// sameState reports whether two states sign, and trust, the same. A rotation that was aborted may be followed by
// another one in the same phase.
func sameState(a, b store.State) bool {
	return a.Rotation.Phase == b.Rotation.Phase && a.Rotation.Old == b.Rotation.Old && a.Rotation.New == b.Rotation.New && a.Authority.Same(b.Authority)
}
