package enroll

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// New roots come within minutes, with a certificate, and the authority learns that they came. Roots that do not fit, and an authority
// that is away, change nothing.
func TestRootsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, other := newAuthority(t, 24*time.Hour), newAuthority(t, 24*time.Hour)
		f := open(t, a, t.TempDir(), "token")
		both := append(a.roots(), other.roots()...)
		set := func(roots []byte, err error) (acks int) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.others, a.rootErr, a.err = roots, err, err
			return a.acks
		}
		trusts := func(step string, want []byte) {
			t.Helper()
			if text, err := os.ReadFile(filepath.Join(f.dir, RootsFile)); err != nil || !bytes.Equal(text, want) {
				t.Errorf("%s: %v, %s", step, err, text)
			}
		}
		f.run(8*time.Hour, func() {
			<-time.After(time.Minute)
			serial := f.serial()
			before := set(both, nil)
			<-time.After(8 * time.Minute)
			trusts("both", both)
			<-time.After(8 * time.Minute)
			if set(both, nil) == before || f.serial() != serial+1 {
				t.Errorf("serial %d, want %d; the authority must be told that the roots are here", f.serial(), serial+1)
			}
			set(other.roots(), nil)
			<-time.After(8 * time.Minute)
			trusts("roots that do not fit", both)
			set(nil, errors.New("connection refused"))
			<-time.After(8 * time.Minute)
			trusts("away", both)
			set(nil, nil)
			<-time.After(8 * time.Minute)
			trusts("one again", a.roots())
			if f.Fault() != "" {
				t.Errorf("fault %q", f.Fault())
			}
		})
		for want, times := range map[string]int{"cannot be used": 1, "certificate not renewed": 2} {
			if n := strings.Count(f.log.String(), want); n != times {
				t.Errorf("said %d times, want %d: %s\n%s", n, times, want, f.log)
			}
		}
	})
}

func TestNextLook(t *testing.T) {
	for _, of := range []struct {
		life   time.Duration
		random float64
		want   time.Duration
	}{
		{24 * time.Hour, 0, 150 * time.Second},
		{24 * time.Hour, 1, 450 * time.Second},
		{16 * time.Second, 0.5, 2 * time.Second},
		{time.Second, 0, time.Second},
	} {
		if got := nextLook(of.life, of.random); got != of.want {
			t.Errorf("%s, %g: %s, want %s", of.life, of.random, got, of.want)
		}
	}
}
