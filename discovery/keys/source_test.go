package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// issuers answer by URI; "" is an error.
type issuers struct {
	mu    sync.Mutex
	keys  map[string]string
	asked []string
}

func (i *issuers) Fetch(_ context.Context, uri string) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = append(i.asked, uri)
	if i.keys[uri] == "" {
		return "", errors.New("away")
	}
	return i.keys[uri], nil
}

func (i *issuers) set(uri, keys string) (asked string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[uri] = keys
	asked, i.asked = strings.Join(i.asked, " "), nil
	return asked
}

func spell(u model.Update) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
		g, text := u.Groups[key], "gone"
		switch {
		case len(g.Faults) > 0:
			text = "fault " + g.Faults[0]
		case len(g.Objects) > 0:
			text = g.Objects[0].Key() + " " + g.Objects[0].Spec.(interface{ GetJwks() string }).GetJwks()
		}
		out = append(out, key+": "+text)
	}
	return fmt.Sprint(strings.Join(out, ", "), " synced ", u.Synced)
}

// Key sets come as they are known, faults once, and what nobody wants any more goes.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &issuers{keys: map[string]string{"a": "1"}}
		s, updates := newSource(of), make(chan model.Update)
		s.Want([]string{"a", "b"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, updates) }()
		next := func(want string) {
			t.Helper()
			select {
			case u := <-updates:
				if got := spell(u); got != want {
					t.Errorf("it sends %q, want %q", got, want)
				}
			case <-time.After(time.Hour):
				t.Errorf("it sends nothing, want %q", want)
			}
		}
		next("a: KeySet//a 1 synced false")
		next("b: fault away synced true")
		<-time.After(10 * time.Second)
		synctest.Wait()
		if asked := of.set("b", "2"); asked != "a b b b b" {
			t.Errorf("it has asked %q", asked)
		}
		next("b: KeySet//b 2 synced true")
		of.set("a", "")
		next("a: fault away synced true")
		of.set("a", "1")
		next("a: KeySet//a 1 synced true") // the fault is over
		of.set("b", "3")
		next("b: KeySet//b 3 synced true")
		s.Want([]string{"a"})
		next("b: gone synced true")
		s.Want(nil)
		next("a: gone synced true")
		of.set("a", "1")
		<-time.After(time.Hour)
		if asked := of.set("a", "1"); asked != "" {
			t.Errorf("it asks %q that nobody wants", asked)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
