package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// witness has seen which states were used, and when.
type witness struct {
	t    *testing.T
	name string
	seen []sight
}

type sight struct {
	at    time.Time
	signs string
	roots []byte
}

// sees checks a state as agents do whose leaves live: each trusts what signs now, and what has signed them is trusted now.
func (w *witness) sees(s State, at time.Time, pem map[string][]byte) {
	w.t.Helper()
	w.seen = append(w.seen, sight{at, s.signs(), s.Authority.Roots()})
	for _, before := range w.seen {
		if at.Sub(before.at) > life {
			continue
		}
		if !bytes.Contains(before.roots, pem[s.signs()]) {
			w.t.Fatalf("%s: %.8s signs, and agents that have asked %s before do not trust it", w.name, s.signs(), at.Sub(before.at))
		}
		if !bytes.Contains(s.Authority.Roots(), pem[before.signs]) {
			w.t.Fatalf("%s: %.8s is not trusted, and leaves of it live that were signed %s before", w.name, before.signs, at.Sub(before.at))
		}
	}
}

// Each change of each step of a rotation, and of an abort, may be the last one before a crash, or fail for want of room: the file of the
// next change is then half written under its temporary name, or cannot be made. A start finds an authority of the two roots, no agent with a leaf
// that lives is left alone, and the rotation, or the abort, comes to its end.
func TestBrokenOffAnywhere(t *testing.T) {
	const faults = 3 // killed between two files, killed within one, no room for one
	for _, of := range []struct {
		name  string
		begun bool            // a rotation
		steps []time.Duration // that were done before, after the begin
		now   time.Duration
		abort bool
	}{
		{name: "begin"},
		{name: "abort", begun: true, abort: true},
		{name: "abort of trust", begun: true, steps: []time.Duration{0}, now: life / 2, abort: true},
		{name: "trust", begun: true},
		{name: "progress", begun: true, steps: []time.Duration{0}, now: life / 2},
		{name: "leaves", begun: true, steps: []time.Duration{0}, now: life + time.Minute},
		{name: "forget", begun: true, steps: []time.Duration{0, life + time.Minute}, now: 2 * (life + time.Minute)},
	} {
		for n, last := 0, 1; n <= last; n++ {
			for fault := range faults {
				dir, began := t.TempDir(), time.Now()
				w := &witness{t: t, name: fmt.Sprintf("%s, after %d changes, fault %d", of.name, n, fault)}
				pem := map[string][]byte{}
				first, _, err := Open(dir, began)
				check(t, err)
				pem[first.signs()] = first.Authority.Roots()
				w.sees(first, began, pem)
				learn := func() {
					if text, err := os.ReadFile(filepath.Join(dir, next(ca.RootsFile))); err == nil {
						coming, err := filesOf(dir, next)
						if err != nil {
							return
						}
						a, err := ca.Read(coming, began)
						check(t, err)
						pem[a.Root()] = bytes.TrimSpace(text)
					}
				}
				if of.begun {
					_, err := Rotate(dir, false, began)
					check(t, err)
					learn()
				}
				for _, after := range of.steps {
					w.sees(step(t, dir, began.Add(after)), began.Add(after), pem)
				}
				at := began.Add(of.now)
				var changes []change
				switch {
				case !of.begun:
					_, changes, err = toBegin(dir, false, at)
				case of.abort:
					changes, err = toAbort(dir, at)
				default:
					_, changes, err = toStep(dir, ca.Observed{Most: life, Live: n + 1}, at.Add(progressAgain))
				}
				check(t, err)
				if last = len(changes); last == 0 {
					t.Fatalf("%s: nothing is to be done", w.name)
				}
				check(t, do(dir, changes[:n]))
				learn()
				if n < last && fault > 0 {
					breakOff(t, dir, changes[n], fault == 2)
				}
				after, made, err := Open(dir, at)
				if err != nil || made {
					t.Fatalf("%s: made %t, %v", w.name, made, err)
				}
				if pem[after.signs()] == nil {
					t.Fatalf("%s: a root signs that nobody knows", w.name)
				}
				w.sees(after, at, pem)
				w.end(dir, at, pem, of.abort, first)
			}
		}
	}
}

// breakOff leaves what a write of a file leaves that was killed, or makes it impossible, as on a full disk.
func breakOff(t *testing.T, dir string, c change, full bool) {
	t.Helper()
	temporary := filepath.Join(dir, "."+c.name+".new")
	if !full {
		check(t, os.WriteFile(temporary, c.content[:len(c.content)/2], 0o600))
		return
	}
	if c.content == nil {
		return // a file can be removed from a full disk
	}
	check(t, os.MkdirAll(filepath.Join(temporary, "x"), 0o700))
	if err := do(dir, []change{c}); err == nil {
		t.Fatalf("%s was written", c.name)
	}
	check(t, os.RemoveAll(temporary))
}

// end goes on until there is no rotation.
func (w *witness) end(dir string, at time.Time, pem map[string][]byte, abort bool, first State) {
	w.t.Helper()
	if state, err := Read(dir, at); err != nil {
		w.t.Fatalf("%s: %v", w.name, err)
	} else if abort && state.Rotation.Phase != "" {
		check(w.t, Abort(dir, at))
	}
	if !abort {
		if state, err := Read(dir, at); err == nil && state.Rotation.Phase == "" && state.signs() == first.signs() {
			_, err := Rotate(dir, false, at)
			check(w.t, err)
			if coming, err := filesOf(dir, next); err == nil {
				a, err := ca.Read(coming, at)
				check(w.t, err)
				pem[a.Root()] = bytes.TrimSpace(coming.Roots)
			}
		}
	}
	var s State
	for n := range 16 {
		now := at.Add(time.Duration(n) * life / 3)
		s = step(w.t, dir, now)
		w.sees(s, now, pem)
	}
	text, err := os.ReadFile(filepath.Join(dir, ca.RootsFile))
	check(w.t, err)
	if s.Rotation.Phase != "" || trusts(s) != 1 || (s.signs() == first.signs()) != abort || bytes.Count(text, []byte("BEGIN")) != 1 {
		w.t.Fatalf("%s: at the end %+v, %d roots, signed by the first root: %t", w.name, s.Rotation, trusts(s), s.signs() == first.signs())
	}
	for name, mode := range modes(w.t, dir) {
		if strings.Contains(name, "key") && mode != 0o600 {
			w.t.Errorf("%s: %s has mode %04o", w.name, name, mode)
		}
	}
}
