package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// server is the Secrets of a namespace at an API server.
type server struct {
	mu      sync.Mutex
	stored  map[string]*corev1.Secret
	version int
	away    bool
	lost    bool // it stores what it is sent, and its answer does not arrive
}

var (
	errAway = errors.New("connection refused")
	of      = schema.GroupResource{Resource: "secrets"}
)

func (s *server) all(context.Context) (out []corev1.Secret, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if s.stored[name].Labels[ofLabel] == "acme" {
			out = append(out, *s.stored[name].DeepCopy())
		}
	}
	return out, nil
}

func (s *server) get(_ context.Context, name string) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.away:
		return nil, errAway
	case s.stored[name] == nil:
		return nil, nil
	}
	return s.stored[name].DeepCopy(), nil
}

func (s *server) put(_ context.Context, o *corev1.Secret) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.stored[o.Name]
	switch {
	case s.away:
		return nil, errAway
	case o.ResourceVersion == "" && had != nil:
		return nil, apierrors.NewAlreadyExists(of, o.Name)
	case o.ResourceVersion != "" && had == nil:
		return nil, apierrors.NewNotFound(of, o.Name)
	case had != nil && had.ResourceVersion != o.ResourceVersion:
		return nil, apierrors.NewConflict(of, o.Name, errors.New("another version"))
	}
	s.version++
	o = o.DeepCopy()
	o.ResourceVersion = fmt.Sprint(s.version)
	s.stored[o.Name] = o
	if s.lost {
		return nil, errAway
	}
	return o.DeepCopy(), nil
}

func (s *server) remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, name)
	return nil
}

// replica returns a Store of a server, which holds the Lease while holds says so.
func (s *server) replica(name string, holds *bool) *Store {
	return &Store{
		In: At{"certs", "acme"}, Replica: name, Holds: func() bool { return *holds }, Changed: func() {}, Log: slog.New(slog.DiscardHandler),
		open: func(*kube.Client) (secrets, error) { return s, nil },
	}
}

// leads has a replica lead until the function that it returns is called.
func leads(t *testing.T, s *Store, at secrets) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.lead(ctx, at); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return func() {
		stop()
		<-ended
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var record = acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}}

const key = "edge lets a.test"

func loaded(t *testing.T, s *Store) acme.Record {
	t.Helper()
	all, _, err := s.Load()
	check(t, err)
	return all[key]
}

// The next leader begins with what the last one has written, though no watch has told it. What the last one writes late is refused, and changes nothing.
func TestTwoLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, holdsA, holdsB := &server{stored: map[string]*corev1.Secret{}}, true, true
		a, b := at.replica("a", &holdsA), at.replica("b", &holdsB)
		if _, err := a.Term(t.Context()); !errors.Is(err, acme.ErrFollows) {
			t.Errorf("a replica that does not lead: %v", err)
		}
		defer leads(t, a, at)()
		check(t, a.Save(t.Context(), record.Begin(time.Now(), 0)))
		endB := leads(t, b, at)
		defer endB()
		if got := loaded(t, b); !got.Begun() {
			t.Fatalf("b begins with %+v", got)
		}
		check(t, a.Save(t.Context(), record.Ordered("https://a.test/1", []byte("key")))) // it was on its way before a's term ended
		if err := b.Save(t.Context(), record.Begin(time.Now(), 0)); !errors.Is(err, acme.ErrTaken) {
			t.Errorf("b writes over a's order: %v", err)
		}
		if got := loaded(t, b); got.Order != "https://a.test/1" || string(got.OrderKey) != "key" {
			t.Errorf("b goes on with %+v", got)
		}
		check(t, b.Save(t.Context(), loaded(t, b).Asked([]acme.Question{{Host: "a.test", Token: "t", Answer: "x"}})))
		if err := a.Save(t.Context(), record); !errors.Is(err, acme.ErrTaken) {
			t.Errorf("a writes over b's: %v", err)
		}
		holdsA = false // a's context has not ended: it was frozen
		if _, err := a.Term(t.Context()); !errors.Is(err, acme.ErrFollows) {
			t.Errorf("a may ask after its lease: %v", err)
		}
		if err := a.Save(t.Context(), record); !errors.Is(err, acme.ErrFollows) {
			t.Errorf("a writes after its lease: %v", err)
		}
	})
}

// A write whose answer is lost counts as another one's: the next one is refused, and what is stored is read.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, holds := &server{stored: map[string]*corev1.Secret{}}, true
		a := at.replica("a", &holds)
		defer leads(t, a, at)()
		at.lost = true
		if err := a.Save(t.Context(), record.Ordered("https://a.test/1", nil)); err == nil || errors.Is(err, acme.ErrTaken) || !strings.Contains(err.Error(), "Secret certs/acme-") {
			t.Errorf("an answer that is lost: %v", err)
		}
		at.lost = false
		if err := a.Save(t.Context(), record); !errors.Is(err, acme.ErrTaken) {
			t.Errorf("the next write: %v", err)
		}
		if got := loaded(t, a); got.Order == "" {
			t.Errorf("what was stored is lost: %+v", got)
		}
	})
}

// All replicas have one key of an account, whichever made it.
func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, holds := &server{stored: map[string]*corev1.Secret{}}, true
		made := 0
		ask := func(s *Store, issuer string) string {
			text, err := s.Account(t.Context(), issuer, "https://a.test", func() ([]byte, error) {
				made++
				return fmt.Appendf(nil, "key %d", made), nil
			})
			check(t, err)
			return string(text)
		}
		a, b := at.replica("a", &holds), at.replica("b", &holds)
		endA := leads(t, a, at)
		first := ask(a, "lets")
		endA()
		defer leads(t, b, at)()
		if again, other := ask(b, "lets"), ask(b, "inner"); again != first || other == first || made != 2 {
			t.Errorf("%q, then %q and %q, made %d", first, again, other, made)
		}
		at.stored["acme"].Data[accountFile("lets", "https://a.test")] = []byte("{")
		if _, err := b.Account(t.Context(), "lets", "https://a.test", nil); err == nil || !strings.Contains(err.Error(), "Secret certs/acme: read account-lets-") {
			t.Errorf("a key that cannot be read: %v", err)
		}
	})
}

// A Secret that cannot be read is a fault of that set alone, and is written over; one that others do not see is written again.
func TestSecretsThatAreWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, holds := &server{stored: map[string]*corev1.Secret{}}, true
		a := at.replica("a", &holds)
		defer leads(t, a, at)()
		check(t, a.Save(t.Context(), record))
		name := a.In.nameOf(record.Set())
		for what, text := range map[string]string{"half": `{"Namespace": "ed`, "of another set": `{"Namespace": "bank"}`} {
			o, _ := at.get(t.Context(), name)
			o.Data[setFile] = []byte(text)
			o, err := at.put(t.Context(), o)
			check(t, err)
			a.apply(kube.Event{Put: o})
			all, broken, _ := a.Load()
			if b, is := broken[record.Set().ID()]; len(all) > 0 || !is || !strings.Contains(b.Err.Error(), "Secret certs/"+name) || !b.At.Equal(time.Now()) {
				t.Errorf("%s: %v, %v", what, all, broken)
			}
		}
		check(t, a.Save(t.Context(), record))
		if all, broken, _ := a.Load(); len(all) != 1 || len(broken) > 0 {
			t.Errorf("after it was written: %v, %v", all, broken)
		}

		o, _ := at.get(t.Context(), name)
		o.Labels = nil
		o, err := at.put(t.Context(), o)
		check(t, err)
		a.apply(kube.Event{Gone: o}) // of the label's watch
		if err := a.Save(t.Context(), record); !errors.Is(err, acme.ErrTaken) {
			t.Errorf("the first write: %v", err)
		}
		if all, _, _ := a.Load(); len(all) > 0 {
			t.Errorf("what others do not see is as if it was not there: %v", all)
		}
		check(t, a.Save(t.Context(), record))
		if all, err := at.all(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("the label is not there: %v, %v", all, err)
		}

		long := record
		long.Secrets = []string{strings.Repeat("x", most)}
		if err := a.Save(t.Context(), long); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("too much: %v", err)
		}
		check(t, a.Forget(t.Context(), record))
		if all, _, _ := a.Load(); len(all) > 0 || len(at.stored) > 0 {
			t.Errorf("not forgotten: %v", at.stored)
		}
	})
}

// A watch that is late takes nothing back, a new list drops what is gone, and nothing is known before the first.
func TestFollowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, holds := &server{stored: map[string]*corev1.Secret{}}, true
		a, b := at.replica("a", &holds), at.replica("b", &holds)
		if all, _, _ := a.Load(); all != nil {
			t.Errorf("before the first list: %v", all)
		}
		b.apply(kube.Event{List: true})
		if all, _, err := b.Load(); all == nil || err != nil {
			t.Errorf("after an empty list: %v, %v", all, err)
		}
		defer leads(t, a, at)()
		check(t, a.Save(t.Context(), record))
		first, _ := at.get(t.Context(), a.In.nameOf(record.Set()))
		check(t, a.Save(t.Context(), record.Ordered("https://a.test/1", nil)))
		a.apply(kube.Event{Put: first})
		if got := loaded(t, a); got.Order == "" {
			t.Error("a late watch takes an order back")
		}
		a.apply(kube.Event{List: true})
		if all, _, _ := a.Load(); len(all) > 0 {
			t.Errorf("after an empty list: %v", all)
		}
	})
}

// Each replica writes its own report beside those of others, and is heard.
func TestReportsOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, holds := &server{stored: map[string]*corev1.Secret{}}, false
		a, b := at.replica("a_1", &holds), at.replica("b_2", &holds)
		for _, s := range []*Store{a, b} {
			s.apply(kube.Event{List: true})
			check(t, s.say(t.Context(), at, time.Now()))
		}
		if len(at.stored) > 0 {
			t.Errorf("replicas that have nothing to say wrote %v", at.stored)
		}
		a.Say(acme.Report{Shown: map[string]int{"tok": 1}})
		b.Say(acme.Report{Shown: map[string]int{"tok": 2}})
		check(t, a.say(t.Context(), at, time.Now()))
		check(t, b.say(t.Context(), at, time.Now())) // a was quicker: b has read what is there
		check(t, b.say(t.Context(), at, time.Now()))
		written := at.version
		check(t, b.say(t.Context(), at, time.Now()))
		if heard := b.Heard(); len(heard) != 2 || heard["a_1"].Shown["tok"] != 1 || heard["b_2"].Shown["tok"] != 2 || at.version != written {
			t.Errorf("heard %+v", heard)
		}
		at.away = true
		b.Say(acme.Report{})
		if err := b.say(t.Context(), at, time.Now()); err == nil || !strings.Contains(err.Error(), "Secret certs/acme-replicas") {
			t.Errorf("an API server that is away: %v", err)
		}
	})
}
