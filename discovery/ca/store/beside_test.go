package store

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Replicas that start at once on one directory have one root.
func TestARootIsMadeByOneOfMany(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	roots := make([]string, 8)
	for i := range roots {
		all.Go(func() {
			a, _, err := Open(dir, time.Now())
			if err != nil {
				t.Error(err)
				return
			}
			roots[i] = string(a.Authority.Roots())
		})
	}
	all.Wait()
	for _, root := range roots {
		if root != roots[0] {
			t.Fatal("two roots were made")
		}
	}
}

// While another process writes the files of an authority, some of them are there: that is no reason to refuse a start.
func TestARootIsAwaited(t *testing.T) {
	for name, open := range map[string]func(dir string) (State, error){
		"Open": func(dir string) (State, error) { s, _, err := Open(dir, time.Now()); return s, err },
		"Read": func(dir string) (State, error) { return Read(dir, time.Now()) },
	} {
		dir := t.TempDir()
		files, err := ca.NewRoot(ca.RootName, ca.RootLife, time.Now())
		check(t, err)
		type opened struct {
			State
			err error
		}
		done := make(chan opened, 1)
		check(t, locked(dir, func() error {
			if err := write(dir, ca.KeyFile, files.Key, 0o600); err != nil {
				return err
			}
			go func() {
				s, err := open(dir)
				done <- opened{s, err}
			}()
			select {
			case early := <-done:
				done <- early
			case <-time.After(20 * lockAgain): // it waits
			}
			return do(dir, []change{{ca.RootsFile, files.Roots, 0o644}, {ca.CertFile, files.Cert, 0o644}})
		}))
		if o := <-done; o.err != nil || !bytes.Equal(o.Authority.Roots(), files.Roots) {
			t.Errorf("%s: %v", name, o.err)
		}
	}
}

// Where another process holds the lock and does not go on, the error says so too: what it has begun is not to be removed.
func TestAWriterThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		check(t, locked(dir, func() error {
			if err := write(dir, ca.KeyFile, []byte("half"), 0o600); err != nil {
				return err
			}
			if _, made, err := Open(dir, time.Now()); made || !errors.Is(err, errHeld) || !strings.Contains(err.Error(), "has ca-key.pem and not") {
				t.Errorf("made %t, %v", made, err)
			}
			return nil
		}))
	})
}
