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
	<-time.After(time.Duration(uri[0]-'a') * time.Millisecond) // so that answers come in the order of the alphabet
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
		s.Want(addresses("a", "b"))
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
		s.Want(addresses("a"))
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

// silent issuers answer nothing; others at once.
type silent map[string]bool

func (s silent) Fetch(ctx context.Context, uri string) (string, error) {
	if s[uri] {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "keys", nil
}

// A silent server delays the keys of no other, and no mesh for long; what an earlier run has of it stays meanwhile.
func TestSilentServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, wanted := silent{}, addresses("z")
		wanted[0].Known = true
		for i := range 500 {
			uri := fmt.Sprintf("a%03d", i)
			of[uri] = true
			wanted = append(wanted, addresses(uri)...)
			wanted[i+1].Timeout = model.MaxKeyTimeout
		}
		s, updates, began := newSource(of), make(chan model.Update), time.Now()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, updates) }()
		if u := <-updates; !u.Groups[early].Unread || u.Synced {
			t.Errorf("before it is known what is wanted, it sends %v", u)
		}
		s.Want(wanted[:1])
		s.Want(wanted)
		var stands int
		for synced := false; !synced; {
			u := <-updates
			if synced = u.Synced; synced {
				stands = len(u.Stands)
			}
		}
		if took := time.Since(began); took != firstRound || stands != 500 {
			t.Errorf("it syncs after %v, and %d stand", took, stands)
		}
		asked := time.Now()
		s.Want(slices.Concat(wanted, addresses("b"), addressesOf("other", "c")))
		for _, test := range []struct {
			uri  string
			most time.Duration
		}{{"c", 0}, {"b", time.Minute}} {
			for {
				if u := <-updates; len(u.Groups[test.uri].Objects) == 1 {
					break
				}
			}
			if took := time.Since(asked); took > test.most {
				t.Errorf("keys of a server that answers at once come after %v, want %v", took, test.most)
			}
		}
		stop()
		for open := true; open; {
			select {
			case <-updates:
			case err := <-ended:
				open = false
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// URIs beyond the most are a fault of the source, until fewer are wanted.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wanted []model.KeyAddress
		for i := range MaxURIs + 2 {
			wanted = append(wanted, addressesOf("evil", fmt.Sprintf("https://u:secret@%04d.test/", i))...)
		}
		s, updates := newSource(silent{}), make(chan model.Update)
		s.Want(wanted)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, updates) }()
		if u := <-updates; len(u.Groups[beyond].Faults) != 1 || !strings.Contains(u.Groups[beyond].Faults[0], "2 of namespace evil: not fetched, such as https://u:xxxxx@1000.test/#") || beyond > "http" {
			t.Errorf("it sends %v", spell(u))
		}
		s.Want(wanted[:5])
		for {
			if g, told := (<-updates).Groups[beyond]; told && g.Empty() {
				break
			}
		}
		stop()
		<-ended
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
