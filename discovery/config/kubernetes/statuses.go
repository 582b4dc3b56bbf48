package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// How fast statuses are written. Each costs up to three requests.
const (
	writesPerSecond = 10
	writesAtOnce    = 10
	writeTimeout    = 10 * time.Second
	firstRetry      = time.Second
	lastRetry       = 5 * time.Minute
)

// Statuses holds the problems and notes of the objects of a cluster. While Run runs, in the leader, it writes them to
// the objects' status and as Events. A Source passes the objects, and Judged the notes.
type Statuses struct {
	Cluster  string
	Instance string // name of this replica in Events
	Log      *slog.Logger

	mu      sync.Mutex
	objects map[string]tracked // by the keys of their groups: those that have problems, or a condition in their status
	judged  map[string]judged  // of these objects, and of others with notes
	refs    map[string]kube.Ref
	queue   writes // nil while Run does not run
}

// put updates an object. Most objects have no problems and no condition, and are not kept.
func (s *Statuses) put(key string, o tracked) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs == nil {
		s.refs = map[string]kube.Ref{}
	}
	s.refs[o.ref.Kind] = kube.Ref{Resource: o.ref.Resource, Kind: o.ref.Kind}
	if len(o.problems) == 0 && o.said == nil {
		delete(s.objects, key)
	} else {
		s.keep(key, o)
	}
	s.look(key)
}

// forget drops all objects at the start of a run: the Source then passes all that still exist again.
func (s *Statuses) forget() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = map[string]tracked{}
}

// setCondition updates the condition that an object's status has.
func (s *Statuses) setCondition(key string, now tracked) {
	if s == nil {
		return
	}
	s.mu.Lock()
	o, known := s.objects[key]
	s.mu.Unlock()
	if known || now.said != nil {
		now.problems = o.problems
		s.put(key, now)
	}
}

func (s *Statuses) keep(key string, o tracked) {
	if s.objects == nil {
		s.objects = map[string]tracked{}
	}
	s.objects[key] = o
}

// drop removes an object.
func (s *Statuses) drop(key string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	delete(s.judged, key)
}

// Judged sets the notes of a mesh. It does not wait for writes.
func (s *Statuses) Judged(mesh *model.Mesh, notes []model.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]judged{}
	for _, n := range notes {
		if n.Code == model.Warned {
			continue // the condition has it by the object's own problems
		}
		r := n.Meta.Origin.Record
		if r == nil || r.Cluster != s.Cluster || r.Relayed || s.refs[n.Meta.Kind].Kind == "" || !steady(n) {
			continue
		}
		j := now[n.Meta.Key()]
		j.uid, j.generation, j.notes = r.UID, r.Generation, append(j.notes, n)
		now[n.Meta.Key()] = j
	}
	for _, o := range mesh.Objects() {
		key, r := o.Key(), o.Origin.Record
		if _, is := s.objects[key]; !is || r == nil || r.Cluster != s.Cluster || r.Relayed {
			continue
		}
		if _, noted := now[key]; !noted {
			now[key] = judged{uid: r.UID, generation: r.Generation}
		}
	}
	last := s.judged
	s.judged = now
	for key, j := range now {
		if was, had := last[key]; !had || was.uid != j.uid || was.generation != j.generation || !slices.EqualFunc(was.notes, j.notes, sameNote) {
			s.look(key)
		}
	}
	for key := range last {
		if _, has := now[key]; !has {
			s.look(key)
		}
	}
}

func sameNote(a, b model.Note) bool {
	return a.Code == b.Code && a.Path == b.Path && a.Message == b.Message
}

// look queues an object if its status must change.
func (s *Statuses) look(key string) {
	if s.queue == nil {
		return
	}
	if _, _, wrong := s.wanted(key); wrong {
		s.queue.Add(key)
	}
}

// wanted returns the condition to write to an object; false if nothing must be written.
func (s *Statuses) wanted(key string) (kube.Ref, kube.Condition, bool) {
	o, known := s.objects[key]
	j, has := s.judged[key]
	if !known {
		if !has || len(j.notes) == 0 {
			return kube.Ref{}, kube.Condition{}, false
		}
		m := j.notes[0].Meta
		o.ref = s.refs[m.Kind]
		o.ref.Namespace, o.ref.Name, o.ref.UID, o.ref.Generation = m.Namespace, m.Name, j.uid, j.generation
	}
	is, wrong := verdict(o, j)
	return o.ref, is, wrong
}

// Run writes statuses that differ until ctx is done. It begins with all objects, and so continues where another replica
// ended. It is a kube.Lead.
func (s *Statuses) Run(ctx context.Context, connect func() (*kube.Client, error)) error {
	client, err := connect()
	if err != nil {
		return err
	}
	defer client.Close()
	w := writer{s, client, faults{of: "Events", keys: map[string]bool{}}, faults{of: "statuses", keys: map[string]bool{}}}
	work(ctx, writesPerSecond, writesAtOnce, s.begin, func(queue writes, key string, turn func() bool) {
		if turn() {
			w.write(ctx, queue, key)
		}
	})
	return nil
}

// writes is a queue of the keys of what is to be written.
type writes = workqueue.TypedRateLimitingInterface[string]

// work passes keys of a queue to write until ctx is done. begin gets the queue, and nil at the end. write calls turn before it writes: that waits, so that it is
// perSecond times a second at most, or atOnce after a pause, and returns false if ctx is done.
func work(ctx context.Context, perSecond float32, atOnce int, begin func(writes), write func(queue writes, key string, turn func() bool)) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
	begin(queue)
	defer begin(nil)
	defer queue.ShutDown()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	pace := flowcontrol.NewTokenBucketRateLimiter(perSecond, atOnce)
	defer pace.Stop()
	turn := func() bool { return pace.Wait(ctx) == nil }
	for {
		key, down := queue.Get()
		if down {
			return
		}
		write(queue, key, turn)
		queue.Done(key)
	}
}

// begin sets the queue, nil for none, and queues all objects whose status must change.
func (s *Statuses) begin(queue writes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue = queue; queue == nil {
		return
	}
	for key := range s.objects {
		s.look(key)
	}
	for key := range s.judged {
		s.look(key)
	}
}

// writer is the state of one Run.
type writer struct {
	*Statuses
	client           *kube.Client
	events, statuses faults
}

// faults are the present failures of one kind of write.
type faults struct {
	of     string          // "statuses"
	keys   map[string]bool // of the objects
	told   bool
	reason string // the reason that was logged last
}

// write writes the wanted status of an object, and an Event.
func (w *writer) write(ctx context.Context, queue writes, key string) {
	w.mu.Lock()
	ref, is, wrong := w.wanted(key)
	w.mu.Unlock()
	if !wrong {
		queue.Forget(key)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.client.SetCondition(ctx, ref, is, time.Now())
	switch {
	case err == nil:
		queue.Forget(key)
		w.wrote(key, ref, is.Said)
		w.logResult(ctx, &w.statuses, key, nil)
		err := w.client.Tell(ctx, ref, is.Said, w.Instance, time.Now())
		w.logResult(ctx, &w.events, key, err) // a failed Event is not tried again
	case errors.Is(err, kube.ErrOld): // the watch will report its present form
		queue.Forget(key)
		w.logResult(ctx, &w.statuses, key, nil)
	case apierrors.IsConflict(err):
		queue.AddRateLimited(key)
	default:
		w.logResult(ctx, &w.statuses, key, err)
		queue.AddRateLimited(key)
	}
}

// wrote records the written status: the watch may be late.
func (s *Statuses) wrote(key string, ref kube.Ref, is kube.Said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, known := s.objects[key]
	if known && (o.ref.UID != ref.UID || o.ref.Generation != ref.Generation) {
		return
	}
	o.ref, o.said = ref, &is
	s.keep(key, o)
}

// logResult logs a fault once for any number of objects, and logs when all are over.
func (w *writer) logResult(ctx context.Context, f *faults, key string, err error) {
	switch reason := string(apierrors.ReasonForError(err)); {
	case errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, kube.ErrNotLeading): // Run was stopped, or will be
	case err == nil:
		if delete(f.keys, key); len(f.keys) == 0 && f.told {
			f.told = false
			w.Log.Info(f.of + " of Kubernetes' objects are written again")
		}
	default:
		if !f.told || reason != f.reason {
			w.Log.Error(f.of+" of Kubernetes' objects are not written", "object", key, "err", err)
		}
		f.keys[key], f.told, f.reason = true, true, reason
	}
}
