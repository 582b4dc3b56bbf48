package ca

import (
	"strings"
	"testing"
	"time"
)

const (
	before = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	after  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// rotations returns one in each phase.
func rotations() (began time.Time, begun, trust, leaves, forget Rotation) {
	began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	begun = Rotation{Phase: Begun, Old: before, New: after}
	trust, leaves = begun, begun
	trust.Phase, trust.Began = Trust, began
	leaves.Phase, leaves.Began, leaves.Switched, leaves.Until = Leaves, began, began.Add(25*time.Hour), began.Add(50*time.Hour)
	forget = leaves
	forget.Phase = Forget
	return began, begun, trust, leaves, forget
}

// No leaf of the new root comes before the trust, and no root is forgotten that is in use.
func TestRotationSteps(t *testing.T) {
	const day = 24 * time.Hour
	began, begun, trust, leaves, forget := rotations()
	long := trust
	long.Most = 2 * day
	for name, of := range map[string]struct {
		from  Rotation
		at    time.Duration // after began
		want  Phase
		waits string
	}{
		"none":                          {Rotation{}, day, "", ""},
		"begun":                         {begun, 0, Trust, "2 of 3 certificates that are known came with both roots; the new root signs at 2026-03-02T12:01:00Z"},
		"begun long ago":                {begun, 9 * day, Trust, "2 of 3 certificates"},
		"trusted":                       {trust, time.Hour, Trust, "the new root signs at 2026-03-02T12:01:00Z"},
		"trusted, a moment before":      {trust, day + slack(day) - 1, Trust, "2 of 3 certificates"},
		"trusted for a life":            {trust, day + slack(day), Leaves, "certificates of the old root live until 2026-03-03T12:02:00Z"},
		"trusted, a clock put back":     {trust, -day, Trust, "2 of 3 certificates"},
		"a leaf of the old root lives":  {leaves, 50*time.Hour - 1, Leaves, "certificates of the old root live until 2026-03-03T14:00:00Z"},
		"signed, a clock put back":      {leaves, -day, Leaves, "certificates of the old root live"},
		"no leaf of the old root lives": {leaves, 50 * time.Hour, Forget, ""},
		"the end":                       {forget, 0, Forget, ""},
		"a shorter life since":          {long, day + slack(day), Trust, "the new root signs at 2026-03-03T12:01:00Z"},
	} {
		next := of.from.Step(Observed{Most: day, Live: 3, Both: 2}, began.Add(of.at))
		if next.Phase != of.want || !strings.Contains(next.Waits, of.waits) || (of.waits == "") != (next.Waits == "") {
			t.Errorf("%s: %q, %q; want %q, %q", name, next.Phase, next.Waits, of.want, of.waits)
		}
	}
	for name, of := range map[string]struct {
		o  Observed
		at time.Duration
	}{
		"shared by replicas":             {Observed{Most: day, Shared: true}, day + day/4},
		"shared, of short lives":         {Observed{Most: time.Second, Shared: true}, 11 * time.Second},
		"both are trusted for longer":    {Observed{Most: day, Overlap: 3 * day}, 3 * day},
		"an overlap that is too short":   {Observed{Most: day, Overlap: time.Hour}, day + time.Minute},
		"shared, and trusted for longer": {Observed{Most: day, Shared: true, Overlap: 2 * day}, 2 * day},
	} {
		if early := trust.Step(of.o, began.Add(of.at-1)); early.Phase != Trust {
			t.Errorf("%s: %s too early", name, early.Phase)
		}
		if due := trust.Step(of.o, began.Add(of.at)); due.Phase != Leaves {
			t.Errorf("%s: %s, want that the new root signs", name, due.Phase)
		}
	}
	if _, err := Begin(before, before); err == nil {
		t.Error("a root became itself")
	}
	if begun.Abort() != nil || trust.Abort() != nil || leaves.Abort() == nil || forget.Abort() == nil || (Rotation{}).Abort() == nil {
		t.Error("a rotation is aborted before the new root signs, and only then")
	}
}

// What is stored is read again, and nothing that was not.
func TestReadRotation(t *testing.T) {
	_, begun, trust, leaves, forget := rotations()
	for _, r := range []Rotation{begun, trust, leaves, forget} {
		text, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if read, err := ReadRotation(text); err != nil || read != r {
			t.Errorf("%+v, %v; want %+v", read, err, r)
		}
	}
	for fault, change := range map[string]func(*Rotation){
		`the phase "x"`:          func(r *Rotation) { r.Phase = "x" },
		"the longest life":       func(r *Rotation) { r.Most = -1 },
		`the phase ""`:           func(r *Rotation) { r.Phase = "" },
		"want two SHA-256":       func(r *Rotation) { r.New = r.Old },
		"do not belong to it":    func(r *Rotation) { r.Until = time.Time{} },
		"in phase trust, and it": func(r *Rotation) { r.Phase = Trust },
		"in phase begun, and it": func(r *Rotation) { r.Phase = Begun },
	} {
		r := leaves
		change(&r)
		text, _ := r.Bytes()
		if _, err := ReadRotation(text); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v, want %q", err, fault)
		}
	}
	if _, err := ReadRotation([]byte("{")); err == nil {
		t.Error("half a rotation was read")
	}
}

// FuzzRotation lets time pass, and agents renew at a discovery that is late to use what is stored. The new root
// signs nothing while a leaf lives whose agent does not trust it, and a root with a living leaf is not forgotten.
func FuzzRotation(f *testing.F) {
	f.Add([]byte{0, 1, 9, 3, 2, 200, 4, 250, 4, 250, 250, 4, 4, 250, 250, 250, 4, 4})
	f.Fuzz(func(t *testing.T, events []byte) {
		const life = 4 * time.Hour
		type leaf struct {
			both, old bool // its agent trusts both roots; the old one has signed it
			ends      time.Time
		}
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		stored, err := Begin(before, after)
		if err != nil {
			t.Fatal(err)
		}
		used, since := stored, now // what the discovery uses, until slack after it was stored
		leaves := make([]leaf, 4)
		for _, e := range events {
			switch e % 4 {
			case 0, 1: // an agent renews
				leaves[int(e/4)%len(leaves)] = leaf{used.Phase != Begun, used.Phase == Begun || used.Phase == Trust, now.Add(life)}
			case 2: // the discovery uses what is stored
				used = stored
			default:
				now = now.Add(time.Duration(e) * time.Minute / 4)
			}
			if now.Sub(since) >= slack(life)/2 {
				used = stored
			}
			if next := stored.Step(Observed{Most: life}, now); next.Phase != stored.Phase {
				stored, since = next, now
			}
			for _, l := range leaves {
				if lives := now.Before(l.ends); lives && !l.both && (stored.Phase == Leaves || stored.Phase == Forget) {
					t.Fatalf("the new root signs at %s, and an agent whose leaf lives does not trust it", now)
				} else if lives && l.old && stored.Phase == Forget {
					t.Fatalf("the old root is forgotten at %s, and a leaf of it lives until %s", now, l.ends)
				}
			}
		}
	})
}
