package ca

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Copy is a copy of an authority that discovery keeps beside the files, so that trust comes before leaves where these
// files are replaced, also over a restart: see Follow. The zero value is none.
type Copy struct {
	Files    Files         `json:"files"`             // of the authority that is used, or that is being replaced
	Since    time.Time     `json:"since"`             // when these files were first used
	Seen     time.Time     `json:"seen"`              // when they were last compared
	Most     time.Duration `json:"most"`              // longest life of their leaves
	Next     Files         `json:"next,omitzero"`     // of its successor, during a rotation
	Rotation Rotation      `json:"rotation,omitzero"` // zero for none
}

// State returns the authority of a copy.
func (c Copy) State(at time.Time) (State, error) { return ReadState(c.Files, c.Next, c.Rotation, at) }

// Follow returns the copy after the files that were found, and after the step that is due. Files of another root begin
// a rotation to that root. last is the rotation of these files that has ended last: where it led to them after the copy
// was made, they are used at once. An error describes files that are not used; the copy is to be used nevertheless.
func (c Copy) Follow(found Files, last Rotation, o Observed, at time.Time) (Copy, error) {
	at = at.UTC()
	c.Most = max(c.Most, o.Most)
	o.Most = c.Most
	fresh := Copy{Files: found, Since: at, Seen: at, Most: o.Most}
	a, fault := Read(found, at)
	used, err := c.State(at)
	switch {
	case fault != nil && (err != nil || c.Rotation.Phase == ""):
		c.Seen = at
		return c, fault
	case fault == nil && (err != nil || c.over(at) || last.New == a.Root() && last.Until.After(c.Since)):
		return fresh, nil // no leaf of the authority before lives, or a person or a rotation of the files decided
	}
	c.Seen = at
	again := fault == nil && c.Rotation.Phase != "" && a.Root() == c.Rotation.New
	switch {
	case c.Rotation.Phase == "" && a.sameRoot(used.Authority):
		c.Files = found
		return c, nil
	case c.Rotation.Phase == "" || c.Rotation.Phase == Trust && fault == nil && !again: // what is replaced in Trust has signed nothing
		return c.begin(found, a, o, at)
	case again:
		c.Next = found
	}
	if c.Rotation = c.Rotation.Step(o, at); c.Rotation.Phase == Forget {
		c = Copy{Files: c.Next, Since: at, Seen: at, Most: o.Most}
	}
	return c, fault
}

// begin begins the rotation to the authority of files, in place of one that is in Trust.
func (c Copy) begin(found Files, a *Authority, o Observed, at time.Time) (Copy, error) {
	c.Next, c.Rotation = Files{}, Rotation{}
	used, err := c.State(at)
	if err != nil {
		return c, err
	}
	if a.sameRoot(used.Authority) { // changed back
		c.Files = found
		return c, nil
	}
	r, err := Begin(used.Authority.Root(), a.Root())
	if err != nil {
		return c, err
	}
	next := c
	next.Next, next.Rotation = found, r.Step(o, at)
	if _, err := next.State(at); err != nil {
		return c, err
	}
	return next, nil
}

// over reports whether no leaf of the copy's authority lives: it was not used for longer than that.
func (c Copy) over(at time.Time) bool {
	return c.Rotation.Phase == "" && at.Sub(c.Seen) > c.Most+Late(c.Most)
}

// Same reports whether two copies sign, and trust, the same.
func (c Copy) Same(other Copy) bool {
	return c.Files.equal(other.Files) && c.Next.equal(other.Next) && c.Rotation.Phase == other.Rotation.Phase && c.Rotation.New == other.Rotation.New
}

func (f Files) equal(other Files) bool {
	return bytes.Equal(f.Cert, other.Cert) && bytes.Equal(f.Key, other.Key) && bytes.Equal(f.Chain, other.Chain) && bytes.Equal(f.Roots, other.Roots)
}

// sameRoot reports whether the leaves of two authorities lead to one root, or to two certificates of one root's key: an
// agent that trusts one of them takes the leaves of both.
func (a *Authority) sameRoot(other *Authority) bool {
	x, y := a.path[len(a.path)-1], other.path[len(other.path)-1]
	return bytes.Equal(x.RawSubject, y.RawSubject) && bytes.Equal(x.RawSubjectPublicKeyInfo, y.RawSubjectPublicKeyInfo)
}

// ReadCopy reads a copy that was stored, and judges it: it has an authority that signs. Errors do not contain any part
// of a key.
func ReadCopy(text []byte, at time.Time) (Copy, error) {
	var c Copy
	if err := json.Unmarshal(text, &c); err != nil {
		return Copy{}, fmt.Errorf("is half-written or broken: %d bytes are no JSON of a copy", len(text))
	}
	if c.Rotation.Phase != "" {
		r, err := c.Rotation.Bytes()
		if err == nil {
			_, err = ReadRotation(r)
		}
		if err != nil {
			return Copy{}, err
		}
	}
	if _, err := c.State(at); err != nil {
		return Copy{}, err
	}
	return c, nil
}

// Bytes returns what ReadCopy reads.
func (c Copy) Bytes() ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the copy of the authority: %w", err)
	}
	return append(text, '\n'), nil
}
