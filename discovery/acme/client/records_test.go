package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/acme"
)

// A process that gets the directory later than it has started, or could not read it before, goes on with what is in it then: a certificate is neither ordered
// again nor written over.
func TestADirectoryIsReadWhenItIsHad(t *testing.T) {
	for name, lend := range map[string]func(t *testing.T, dir string) (giveBack func()){
		"of another process": func(t *testing.T, dir string) func() {
			other := Directory(dir)
			_, err := other.Term(t.Context())
			check(t, err)
			return other.Close
		},
		"open to others": func(t *testing.T, dir string) func() {
			check(t, os.Mkdir(dir, 0o755))
			return func() { check(t, os.Chmod(dir, 0o700)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, func(http.ResponseWriter) {})
			dir := filepath.Join(t.TempDir(), "acme")
			giveBack := lend(t, dir)
			c, _ := start(t, a, dir)
			until(t, func() bool { return strings.Contains(strings.Join(c.Lines(), " "), dir) })
			now := time.Now()
			got := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}}.Issued([]byte("key"), []byte("chain"), now, now.Add(time.Hour))
			check(t, Directory(dir).Save(t.Context(), got))
			giveBack()
			c.Look()
			until(t, func() bool { return len(c.Lines()) == 0 || a.count("/order") > 0 })
			kept, _, err := Directory(dir).Load()
			check(t, err)
			if r := kept[got.Set().Key()]; string(r.Chain) != "chain" || a.count("/order") > 0 || len(c.secrets.all()) != 1 {
				t.Errorf("%d orders, %d certificates are served, and it is kept that %+v", a.count("/order"), len(c.secrets.all()), r)
			}
		})
	}
}

// until waits for a condition.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for limit := time.After(30 * time.Second); !is(); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			t.Fatal("it did not come")
		}
	}
}

// refusing is a Store that does not take the records of some hosts.
type refusing struct {
	Store
	hosts []string
	saved []string
}

func (s *refusing) Save(_ context.Context, r acme.Record) error {
	if slices.Contains(s.hosts, r.Hosts[0]) {
		return errors.New("write Secret of " + r.Hosts[0] + ": it is immutable")
	}
	s.saved = append(s.saved, r.Hosts[0])
	return nil
}

// A record that cannot be stored keeps no other one from it, and is named for as long.
func TestARecordThatCannotBeStoredIsNamedAndDelaysNoOther(t *testing.T) {
	store := &refusing{hosts: []string{"a.test"}}
	c := &Client{store: store, log: slog.New(slog.DiscardHandler), records: map[string]acme.Record{}, unsaved: map[string]string{}, counts: newCounts()}
	for _, host := range []string{"a.test", "b.test", "c.test"} {
		r := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{host}}
		c.records[r.Set().Key()], c.unsaved[r.Set().Key()] = r, ""
		c.sets = append(c.sets, r.Set())
	}
	for range 2 {
		c.write(t.Context(), time.Now())
	}
	slices.Sort(store.saved)
	if !slices.Equal(store.saved, []string{"b.test", "c.test"}) {
		t.Errorf("stored: %q", store.saved)
	}
	if lines := c.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "write Secret of a.test: it is immutable") {
		t.Errorf("lines %q", lines)
	}
	store.hosts = nil
	c.write(t.Context(), time.Now())
	if lines := c.Lines(); len(lines) > 0 || len(c.unsaved) > 0 {
		t.Errorf("lines %q after all was stored, %v is not", lines, c.unsaved)
	}
}

// deposed is the store of a leader whose term is over.
type deposed struct{ Store }

func (deposed) Save(context.Context, acme.Record) error { return acme.ErrFollows }

// The end of a term is no fault of the store, and what is to be stored stays so.
func TestATermThatEndsIsNoFaultOfTheStore(t *testing.T) {
	var log strings.Builder
	r := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}}
	key := r.Set().Key()
	c := &Client{
		store: deposed{}, log: slog.New(slog.NewTextHandler(&log, nil)), records: map[string]acme.Record{key: r}, unsaved: map[string]string{key: ""},
		counts: newCounts(), sets: []acme.Set{r.Set()},
	}
	c.write(t.Context(), time.Now())
	if _, waits := c.unsaved[key]; !waits || log.Len() > 0 || len(c.Lines()) > 0 {
		t.Errorf("it waits: %t; log %q, lines %q", waits, &log, c.Lines())
	}
}

// A replica that follows serves a certificate under the names that it knows, whatever the leader has stored so far: no look at the store takes it from a name.
func TestFollowersServeNamesThatAreNotStoredYet(t *testing.T) {
	now := time.Now()
	r := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}, Secrets: []string{"x"}}.Issued([]byte("key"), []byte("chain"), now, now.Add(time.Hour))
	p := &peer{shelf: newShelf(), name: "b"}
	p.records[r.Set().Key()] = r
	c := &Client{
		store: p, replicas: p, log: slog.New(slog.DiscardHandler), challenges: newChallenges(), secrets: newSecrets(map[string][]string{"edge": {"gw"}}),
		records: map[string]acme.Record{}, sets: []acme.Set{{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}, Secrets: []string{"x", "y"}}},
	}
	c.load(now)
	if all := c.secrets.all(); len(all) != 2 {
		t.Errorf("%d names have the certificate, want 2", len(all))
	}
}
