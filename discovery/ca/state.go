package ca

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

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

// ReadState reads an authority. While a root is rotated, the rotation alone says which of the two generations signs; else next does not count.
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

// BeginRotation makes a root that is to replace that of an authority, and begins the rotation to it. An authority that was not made here is not
// replaced: others trust its root. Within a life of the last rotation, as LastFile has it, another one takes again: a command that is called
// to see how far one is begins none.
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
