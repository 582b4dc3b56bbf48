package ca

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Phase is how far the rotation of a root is.
type Phase string

// The phases of a rotation, in their order.
const (
	Begun  Phase = "begun"  // the new root is made, and not used
	Trust  Phase = "trust"  // both roots are trusted, the old one signs
	Leaves Phase = "leaves" // both are trusted, the new one signs
	Forget Phase = "forget" // the new one alone is trusted, and signs
)

// Rotation is the rotation of a root. It is stored, and goes on after a restart. The zero value is none.
type Rotation struct {
	Phase    Phase     `json:"phase"`
	Old      string    `json:"old"` // SHA-256 of the root's DER, as hexadecimal digits; "" where EndNow ended it and did not know it
	New      string    `json:"new"`
	Began    time.Time `json:"began"`    // since when both are trusted
	Switched time.Time `json:"switched"` // since when the new one signs; zero before
	Until    time.Time `json:"until"`    // when the last leaf of the old one ends; zero before Switched
	Waits    string    `json:"waits"`    // what the next step waits for

	Most time.Duration `json:"most"` // longest life of a leaf that was allowed since it began
}

// Observed is what counts for a step.
type Observed struct {
	Most    time.Duration // longest life of a leaf
	Overlap time.Duration // how long both roots are trusted at least before the new one signs; zero for no longer than that life needs
	Shared  bool          // by replicas: see Late

	// What is known of certificates that live: the others were signed by another discovery, or before this one began.
	Live, Both int // how many, and how many of them came with both roots
}

// slack returns what is added to the longest life of a leaf: more than a discovery takes to use what is stored, and to
// sign what it has begun to. It looks every second.
func slack(most time.Duration) time.Duration { return min(time.Minute, max(most, 10*time.Second)) }

// Late returns how late a replica may be that shares an authority with others, and uses what it knew of before. It then
// signs nothing that lives longer than a leaf of before would: see Authority.Until. Half of it is for clocks that
// differ.
func Late(most time.Duration) time.Duration { return max(slack(most), most/4) }

// Begin returns the rotation from one root to another. It waits for a discovery: only a running one can trust the new
// root.
func Begin(old, next string) (Rotation, error) {
	switch {
	case old == "" || next == "":
		return Rotation{}, errors.New("a root is missing")
	case old == next:
		return Rotation{}, fmt.Errorf("the new root %.16s is the old one", next)
	}
	return Rotation{Phase: Begun, Old: old, New: next, Waits: "a running discovery goes on within seconds"}, nil
}

// Step returns the rotation after the step that is due, with what the next one waits for. One step is done at a time:
// each is stored before it counts. A leaf that lives a life after the trust began was signed after that, and its answer
// had both roots.
func (r Rotation) Step(o Observed, now time.Time) Rotation {
	now = now.UTC()
	r.Most = max(r.Most, o.Most) // a discovery that begins with a shorter one does not know what was signed before
	wait := r.Most + slack(r.Most)
	if o.Shared {
		wait = r.Most + Late(r.Most)
	}
	trust := max(wait, o.Overlap)
	switch {
	case r.Phase == Begun:
		r.Phase, r.Began = Trust, now
	case r.Phase == Trust && !now.Before(r.Began.Add(trust)):
		r.Phase, r.Switched, r.Until = Leaves, now, now.Add(wait)
	case r.Phase == Leaves && !now.Before(r.Until):
		r.Phase = Forget
	}
	switch r.Phase {
	case Trust:
		r.Waits = fmt.Sprintf("%d of %d certificates that are known came with both roots; the new root signs at %s",
			o.Both, o.Live, r.Began.Add(trust).Format(time.RFC3339))
	case Leaves:
		r.Waits = "certificates of the old root live until " + r.Until.Format(time.RFC3339)
	default:
		r.Waits = ""
	}
	return r
}

// EndNow returns the rotation that ends at once, whether agents trust the new root or not. Where none is under way, it
// is one to root.
func (r Rotation) EndNow(root string, at time.Time) Rotation {
	at = at.UTC()
	if r.Phase == "" {
		r.New = root
	}
	if r.Began.IsZero() {
		r.Began = at
	}
	r.Phase, r.Switched, r.Until, r.Waits = Forget, at, at.Add(time.Nanosecond), ""
	return r
}

// Abort returns an error where it is too late to keep the old root.
func (r Rotation) Abort() error {
	switch r.Phase {
	case "":
		return errors.New("no root is being rotated")
	case Begun, Trust:
		return nil
	}
	return fmt.Errorf("the new root has signed certificates since %s: let the rotation end, and rotate again", r.Switched.Format(time.RFC3339))
}

// ReadRotation reads a rotation that was stored.
func ReadRotation(text []byte) (Rotation, error) {
	var r Rotation
	if err := json.Unmarshal(text, &r); err != nil {
		return Rotation{}, fmt.Errorf("parse the rotation: %w", err)
	}
	times := [3]bool{!r.Began.IsZero(), !r.Switched.IsZero(), r.Until.After(r.Switched)}
	want, known := map[Phase][3]bool{Begun: {}, Trust: {true}, Leaves: {true, true, true}, Forget: {true, true, true}}[r.Phase]
	switch {
	case !known:
		return Rotation{}, fmt.Errorf("the phase %.20q of the rotation is not known, want %s, %s, %s or %s", r.Phase, Begun, Trust, Leaves, Forget)
	case r.Most < 0:
		return Rotation{}, fmt.Errorf("the longest life of a leaf is %s", r.Most)
	case len(r.Old) != 64 && (r.Old != "" || r.Phase != Forget), len(r.New) != 64, r.Old == r.New:
		return Rotation{}, fmt.Errorf("the rotation is from root %.70q to %.70q, want two SHA-256", r.Old, r.New)
	case times != want:
		return Rotation{}, fmt.Errorf("the rotation is in phase %s, and its times began %s, switched %s, until %s do not belong to it", r.Phase, r.Began, r.Switched, r.Until)
	}
	return r, nil
}

// Bytes returns what ReadRotation reads.
func (r Rotation) Bytes() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the rotation: %w", err)
	}
	return append(text, '\n'), nil
}

// RotationFile is the name of what is stored of a rotation, beside the files of the authority.
const RotationFile = "rotation.json"

// LastFile is the name of what is stored of the last rotation that has ended.
const LastFile = "last-rotation.json"

// NextName returns the name of a file of the generation that is to come: ca-key.next.pem.
func NextName(name string) string { return strings.TrimSuffix(name, ".pem") + ".next.pem" }

// State is an authority as it is stored.
type State struct {
	Authority *Authority // signs; its roots are those to trust
	Own       *Authority // signs the certificate of discovery itself
	Rotation  Rotation   // zero for none
}

// ReadState reads an authority. While a root is rotated, the rotation alone says which of the two generations signs;
// else next does not count.
func ReadState(files, next Files, r Rotation, at time.Time) (State, error) {
	if r.Phase == "" {
		a, err := Read(files, at)
		return State{Authority: a, Own: a}, err
	}
	if r.Phase != Forget {
		files.Roots, next.Roots = BothRoots(files.Roots, next.Roots), BothRoots(files.Roots, next.Roots)
	}
	successor, err := Read(next, at)
	switch {
	case err != nil:
		return State{}, fmt.Errorf("a root is being rotated, its successor: %w", err)
	case successor.Root() != r.New:
		return State{}, fmt.Errorf("%s has the root %.16s, and %s names %.16s", NextName(RootsFile), successor.Root(), RotationFile, r.New)
	case r.Phase == Forget:
		return State{successor, successor, r}, nil
	}
	old, err := Read(files, at)
	switch {
	case err != nil && r.Phase == Leaves: // it has expired
		return State{successor, successor, r}, nil
	case err != nil:
		return State{}, err
	case old.Root() != r.Old:
		return State{}, fmt.Errorf("%s leads to the root %.16s, and %s names %.16s", CertFile, old.Root(), RotationFile, r.Old)
	case r.Phase == Leaves:
		return State{successor, old, r}, nil
	}
	return State{old, old, r}, nil
}

// BothRoots returns roots with further ones, which may be among them.
func BothRoots(roots, further []byte) []byte {
	if bytes.Contains(roots, bytes.TrimSpace(further)) {
		return roots
	}
	return append(append(bytes.TrimRight(roots[:len(roots):len(roots)], "\n"), '\n'), further...)
}

// BeginRotation makes a root that is to replace that of an authority, and begins the rotation to it. An authority that
// was not made here is not replaced: others trust its root. Within a life of the last rotation, as LastFile has it,
// another one takes again: a command that is called to see how far one is begins none.
func BeginRotation(a *Authority, lastFile []byte, again bool, at time.Time) (next Files, r Rotation, err error) {
	if root := a.path[len(a.path)-1]; len(a.path) > 1 || !strings.HasPrefix(root.Subject.CommonName, RootName+" ") {
		return Files{}, Rotation{}, fmt.Errorf("%q below the root %q was not made here, so a root of discovery's own would not be trusted where that is: "+
			"make its successor where it was made, and put the new files in place of these (docs/certificates.md)", a.issuer.Subject, root.Subject)
	}
	if len(lastFile) > 0 && !again {
		last, err := ReadRotation(lastFile)
		if err != nil {
			return Files{}, Rotation{}, fmt.Errorf("%s: %w; --again begins another one", LastFile, err)
		}
		if end := last.Until.Add(last.Most); at.Before(end) {
			return Files{}, Rotation{}, fmt.Errorf("the last rotation ended a short time ago: want --again to begin another one before %s, or discovery ca status to see how far one is", end.Format(time.RFC3339))
		}
	}
	if next, err = NewRoot(RootName, RootLife, at); err != nil {
		return Files{}, Rotation{}, err
	}
	successor, err := Read(next, at)
	if err != nil {
		return Files{}, Rotation{}, err
	}
	r, err = Begin(a.Root(), successor.Root())
	return next, r, err
}
