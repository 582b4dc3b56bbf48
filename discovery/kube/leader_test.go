package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shared is a Lease that several replicas request.
type shared struct {
	mu    sync.Mutex
	lease *Lease // nil if it does not exist
	made  int
}

func (s *shared) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return holder(s.lease)
}

// change changes the Lease as a person does; nil deletes it.
func (s *shared) change(do func(*Lease) *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(do(s.lease.clone()))
}

func (s *shared) store(lease *Lease) *Lease {
	s.made++
	if s.lease = lease; lease != nil {
		s.lease.ResourceVersion = fmt.Sprint(s.made)
	}
	return s.lease.clone()
}

// replica is the connection of one replica to the Lease, which may be cut: then requests end at their time limit.
type replica struct {
	*shared

	mu      sync.Mutex
	cut     bool
	refused error
	unheard bool // requests are done, and their answers do not arrive
}

func (r *replica) set(cut bool, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut, r.refused = cut, refused
}

func (r *replica) way(ctx context.Context) error {
	r.mu.Lock()
	cut, refused := r.cut, r.refused
	r.mu.Unlock()
	if cut {
		<-ctx.Done()
		return ctx.Err()
	}
	return refused
}

var theLease = schema.GroupResource{Resource: "leases"}

func (r *replica) get(ctx context.Context) (*Lease, error) {
	if err := r.way(ctx); err != nil {
		return nil, err
	}
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	if r.lease == nil {
		return nil, apierrors.NewNotFound(theLease, "l")
	}
	return r.lease.clone(), nil
}

func (r *replica) create(ctx context.Context, lease *Lease) (*Lease, error) {
	if err := r.way(ctx); err != nil {
		return nil, err
	}
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	if r.lease != nil {
		return nil, apierrors.NewAlreadyExists(theLease, "l")
	}
	if r.unheard {
		r.store(lease)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.store(lease), nil
}

func (r *replica) update(ctx context.Context, lease *Lease) (*Lease, error) {
	if err := r.way(ctx); err != nil {
		return nil, err
	}
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	switch {
	case r.lease == nil:
		return nil, apierrors.NewNotFound(theLease, "l")
	case r.lease.ResourceVersion != lease.ResourceVersion:
		return nil, apierrors.NewConflict(theLease, "l", errors.New("it has changed"))
	}
	return r.store(lease), nil
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// electorate are replicas that lead one after another.
type electorate struct {
	t       *testing.T
	lease   *shared
	mu      sync.Mutex
	leaders []string
	most    int
}

type elected struct {
	*replica
	*Election
	log  *lines
	stop context.CancelFunc
	done chan struct{}
}

// start starts a replica whose function takes a while to end.
func (e *electorate) start(name string, ending time.Duration) *elected {
	r := &replica{shared: e.lease}
	out := &elected{replica: r, log: &lines{}, done: make(chan struct{})}
	out.Election = &Election{
		Namespace: "n", Name: "l", Identity: name, Log: slog.New(slog.NewTextHandler(out.log, nil)),
		locked: func() (leases, error) { return r, nil },
	}
	ctx, stop := context.WithCancel(e.t.Context())
	out.stop = stop
	go func() {
		defer close(out.done)
		if err := out.Run(ctx, func(ctx context.Context, _ func() (*Client, error)) error {
			e.change(func() { e.leaders = append(e.leaders, name) })
			<-ctx.Done()
			<-time.After(ending)
			e.change(func() { e.leaders = without(e.leaders, name) })
			return ctx.Err()
		}); err != nil {
			e.t.Errorf("%s ends with %v", name, err)
		}
	}()
	return out
}

func without(all []string, name string) (out []string) {
	for _, one := range all {
		if one != name {
			out = append(out, one)
		}
	}
	return out
}

func (e *electorate) change(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
	e.most = max(e.most, len(e.leaders))
}

// want waits for a time, and wants these leaders then.
func (e *electorate) want(after time.Duration, names ...string) {
	e.t.Helper()
	<-time.After(after)
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmt.Sprint(e.leaders) != fmt.Sprint(names) {
		e.t.Errorf("the leaders are %v, want %v", e.leaders, names)
	}
	if e.most > 1 {
		e.t.Errorf("there were %d leaders at once", e.most)
	}
}

const second = time.Second

// When the leader stops, another replica leads at once, although the function of the first took a while to end.
func TestElectionReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &electorate{t: t, lease: &shared{}}
		a := e.start("a", 2*second)
		e.want(second, "a")
		b := e.start("b", 0)
		e.want(time.Minute, "a")
		if !a.Leading() || b.Leading() {
			t.Errorf("a leads: %t, b leads: %t", a.Leading(), b.Leading())
		}
		if err := testutil.CollectAndCompare(a.Election, strings.NewReader("# HELP pilotlight_leading 1 while this replica leads: it holds the lease.\n"+
			"# TYPE pilotlight_leading gauge\npilotlight_leading{lease=\"n/l\"} 1\n")); err != nil {
			t.Error(err)
		}
		a.stop()
		e.want(second, "a")
		if e.lease.holder() != "a" {
			t.Error("the lease is released before the functions have ended")
		}
		e.want(6*second, "b")
		<-a.done
		b.stop()
		<-b.done
		e.want(0)
		for text, want := range map[string]int{"msg=leading": 1, `msg="no longer leading"`: 1, "level=ERROR": 0} {
			if n := a.log.count(text); n != want {
				t.Errorf("the log of a has %s %d times, want %d:\n%s", text, n, want, &a.log.text)
			}
		}
		if n := b.log.count(`msg="another replica leads"`); n != 1 {
			t.Errorf("b tells %d times that a leads, want once:\n%s", n, &b.log.text)
		}
	})
}

// A replica that is stopped while it takes the lease does not keep it, though it has not heard that it has it.
func TestElectionReleasesWhatItMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replica{shared: &shared{}, unheard: true}
		e := &Election{Namespace: "n", Name: "l", Identity: "a", Log: slog.New(slog.DiscardHandler), locked: func() (leases, error) { return r, nil }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- e.Run(ctx, func(context.Context, func() (*Client, error)) error { t.Error("it leads"); return nil })
		}()
		synctest.Wait()
		stop()
		if err := <-done; err != nil || r.shared.holder() != "" {
			t.Errorf("%q has the lease, %v", r.shared.holder(), err)
		}
	})
}

// A leader that does not reach the API server ends before another one begins, and does not come back before its time.
func TestElectionIsLostAndRegained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &electorate{t: t, lease: &shared{}}
		a := e.start("a", 2*second)
		e.want(second, "a")
		a.set(true, nil)
		e.want(renewalTime + retryTime + 3*second) // it ended, although there is no other replica
		if n := a.log.count("level=ERROR"); n != 1 {
			t.Errorf("a tells %d errors, want one:\n%s", n, &a.log.text)
		}
		a.set(false, nil)
		e.want(20*second, "a")
		b := e.start("b", 0)
		e.want(second, "a")
		a.set(true, nil)
		e.want(leaseTime+5*retryTime, "b") // b looks each 2.2 retryTime at most, and counts leaseTime from when it sees the last renewal
		a.set(false, nil)
		e.want(time.Minute, "b")
		a.stop()
		<-a.done
		e.want(0, "b")
		b.stop()
		<-b.done
		if n := a.log.count(`msg="the lease can be asked for again"`); n != 2 {
			t.Errorf("a tells %d times that it can ask again, want twice:\n%s", n, &a.log.text)
		}
	})
}

// A missing right is logged once. A task that fails while leading is started again.
func TestElectionTellsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &electorate{t: t, lease: &shared{}}
		r := &replica{shared: e.lease, refused: apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "l", errors.New("not for you"))}
		log, connects, runs := &lines{}, 0, 0
		election := &Election{Namespace: "n", Name: "l", Identity: "a", Log: slog.New(slog.NewTextHandler(log, nil)), locked: func() (leases, error) {
			if connects++; connects < 3 {
				return nil, errors.New("no kubeconfig")
			}
			return r, nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- election.Run(ctx, func(ctx context.Context, _ func() (*Client, error)) error {
				if runs++; runs < 3 {
					return errors.New("no luck")
				}
				<-ctx.Done()
				return nil
			})
		}()
		<-time.After(time.Minute)
		for _, text := range []string{"no kubeconfig", "not for you"} {
			if n := log.count(text); n != 1 {
				t.Errorf("%q is logged %d times, want once:\n%s", text, n, &log.text)
			}
		}
		r.set(false, nil)
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if n := log.count("no luck"); n != 2 || runs != 3 {
			t.Errorf("after %d runs, %d failures are logged, want 3 and 2:\n%s", runs, n, &log.text)
		}
		stop()
		if err := <-done; err != nil || r.holder() != "" {
			t.Errorf("it ends with %v, and the lease is held by %q", err, r.holder())
		}
	})
}

// A Lease that a person has deleted, labelled or emptied stays with the replica that leads. One that a person gives to
// another replica is lost at once.
func TestElectionOfAnEditedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &electorate{t: t, lease: &shared{}}
		a := e.start("a", 0)
		e.want(second, "a")
		for name, change := range map[string]func(*Lease) *Lease{
			"deleted": func(*Lease) *Lease { return nil },
			"labelled": func(l *Lease) *Lease {
				l.Labels = map[string]string{"app": "x"}
				return l
			},
			"emptied": func(l *Lease) *Lease {
				l.Spec = LeaseSpec{}
				return l
			},
		} {
			e.lease.change(change)
			e.want(20*second, "a")
			if got := e.lease.holder(); got != "a" {
				t.Errorf("%s: the Lease is held by %q", name, got)
			}
		}
		if n := a.log.count("msg=leading"); n != 1 {
			t.Errorf("a began to lead %d times, want once:\n%s", n, &a.log.text)
		}
		e.lease.change(func(l *Lease) *Lease {
			other, seconds := "c", int32(30)
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &other, &seconds
			return l
		})
		e.want(retryTime)
		e.want(28 * second) // c is of a version whose lease lasts longer
		e.want(10*second, "a")
		a.stop()
		<-a.done
	})
}
