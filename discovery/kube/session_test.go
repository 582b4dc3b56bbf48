package kube

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

func services() *Watch {
	return &Watch{Resource: corev1.SchemeGroupVersion.WithResource("services"), Object: &corev1.Service{}}
}

func connectTo(url string) func() (*Client, error) {
	return func() (*Client, error) { return New(&rest.Config{Host: url}, "test") }
}

// The first error of a watch ends the others and do, and is returned; so does the end of do.
func TestRunEndsAsAWhole(t *testing.T) {
	good := httptest.NewServer(&fake{version: 1, names: []string{"a"}})
	defer good.Close()
	refusing := httptest.NewServer(&fake{status: http.StatusForbidden})
	defer refusing.Close()
	waits := func(ctx context.Context, s *Session) error {
		s.Start(services())
		s.Start(services())
		<-ctx.Done()
		return nil
	}
	if err := Run(t.Context(), connectTo(refusing.URL), waits); err == nil || !strings.Contains(err.Error(), "not for you") {
		t.Errorf("a watch is refused, and it ends with %v", err)
	}
	wrong := errors.New("wrong")
	for _, want := range []error{nil, wrong} {
		if err := Run(t.Context(), connectTo(good.URL), func(_ context.Context, s *Session) error {
			s.Start(services())
			s.Apply(<-s.Events(), func(Event) {})
			return want
		}); !errors.Is(err, want) {
			t.Errorf("do ends with %v, and it with %v", want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, connectTo(good.URL), waits); err != nil {
		t.Errorf("stopped, it ends with %v", err)
	}
	if err := Run(t.Context(), func() (*Client, error) { return nil, wrong }, waits); !errors.Is(err, wrong) {
		t.Errorf("without a connection it ends with %v", err)
	}
}

// Objects that are optional and refused, and a kind that is awaited and not served, end no Session: the first counts
// as listed, the second not before it is served.
func TestOptionalAndAwaited(t *testing.T) {
	refusing := httptest.NewServer(&fake{status: http.StatusForbidden})
	defer refusing.Close()
	lacking := &fake{status: http.StatusNotFound, version: 1, names: []string{"a"}}
	later := httptest.NewServer(lacking)
	defer later.Close()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	one := func(url string, change func(*Watch), does func(*Session)) {
		t.Helper()
		if err := Run(ctx, connectTo(url), func(_ context.Context, s *Session) error {
			w := services()
			change(w)
			s.Start(w)
			does(s)
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	next := func(s *Session) (out Event) {
		t.Helper()
		select {
		case e := <-s.Events():
			s.Apply(e, func(e Event) { out = e })
		case <-ctx.Done():
			t.Fatal("nothing happens")
		}
		return out
	}
	one(refusing.URL, func(w *Watch) { w.Optional = true }, func(s *Session) {
		if e := next(s); e.Refused == nil || !s.Listed() {
			t.Errorf("it tells %+v, listed: %t", e, s.Listed())
		}
	})
	one(later.URL, func(w *Watch) { w.Awaited = true }, func(s *Session) {
		if s.Listed() {
			t.Error("it is listed before it is there")
		}
		lacking.set(func() { lacking.status = 0 })
		if e := next(s); !e.List || !s.Listed() {
			t.Errorf("it tells %+v, listed: %t", e, s.Listed())
		}
	})
}

// Events of a watch that was stopped reach nobody, and what it never listed is not waited for.
func TestAStoppedWatch(t *testing.T) {
	events := make(chan Event, 3)
	ended := 0
	s := NewSession(events, func(*Watch) func() { return func() { ended++ } })
	a, b := services(), services()
	s.Start(a)
	stop := s.Start(b)
	events <- Event{Of: b, Put: "b"}
	events <- Event{Of: a, List: true}
	stop()
	var got []*Watch
	s.Apply(<-events, func(e Event) { got = append(got, e.Of) })
	if !slices.Equal(got, []*Watch{a}) || !s.Listed() || ended != 1 {
		t.Errorf("%d events, listed: %t, %d ends", len(got), s.Listed(), ended)
	}
}

// The first update is sent when everything is listed and the sender is ready, even if it is empty. Until an update is
// received, further changes are added to it.
func TestOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, updates, wake := make(chan Event), make(chan []string), make(chan struct{})
		s := NewSession(events, func(*Watch) func() { return func() {} })
		a, b := services(), services()
		s.Start(a)
		s.Start(b)
		changed, ready := map[string]int{}, false
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			Outbox[int, []string]{
				Apply: func(e Event) { changed[e.Of.Named()+e.Of.Namespace] = len(e.All) },
				Changes: func() map[string]int {
					out := changed
					changed = map[string]int{}
					return out
				},
				Update: func(of map[string]int) []string { return slices.Sorted(maps.Keys(of)) },
				Ready:  func() bool { return ready }, Wake: wake, Woken: func() { ready = true },
			}.Send(ctx, s, updates)
		}()
		want := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			select {
			case got = <-updates:
				got = append([]string{"update"}, got...)
			default:
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		events <- Event{Of: a, List: true}
		want("one of two is listed")
		wake <- struct{}{}
		want("it is ready")
		b.Namespace = "x"
		events <- Event{Of: b, List: true}
		want("both are listed", "update", "services", "servicesx")
		want("nothing is new")
		events <- Event{Of: a, Put: 1}
		events <- Event{Of: b, Put: 1}
		want("two changes", "update", "services", "servicesx")
		cancel()
		<-done
	})
	synctest.Test(t, func(t *testing.T) {
		updates := make(chan int)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Outbox[int, int]{Changes: func() map[string]int { return nil }, Update: func(of map[string]int) int { return len(of) }}.
				Send(ctx, NewSession(nil, nil), updates)
		}()
		if got := <-updates; got != 0 {
			t.Errorf("the first update has %d groups", got)
		}
		select {
		case <-updates:
			t.Error("there is a second empty update")
		case <-time.After(time.Hour):
		}
		cancel()
		<-done
	})
}

func TestObjects(t *testing.T) {
	one, two := &corev1.Service{}, &corev1.Service{}
	for _, test := range []struct {
		event Event
		want  []*corev1.Service
	}{
		{Event{List: true, All: []any{one, &corev1.Pod{}, two}}, []*corev1.Service{one, two}},
		{Event{Put: two}, []*corev1.Service{two}},
		{Event{Gone: one}, nil},
		{Event{Put: &corev1.Pod{}}, nil},
	} {
		if got := slices.Collect(Objects[*corev1.Service](test.event)); !slices.Equal(got, test.want) {
			t.Errorf("%+v has %v, want %v", test.event, got, test.want)
		}
	}
	if got := Only[*corev1.Service](Event{Gone: one}); got != nil {
		t.Errorf("of one that is gone it returns %v", got)
	}
	for range Objects[*corev1.Service](Event{All: []any{one, two}}) {
		break
	}
}
