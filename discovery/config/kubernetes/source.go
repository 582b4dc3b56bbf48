package kubernetes

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Source tells the objects of a cluster.
type Source struct {
	Connect    func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Cluster    string
	Namespaces []string  // whose objects count; empty for all
	Statuses   *Statuses // that writes what is wrong with an object to it; nil for none
	Log        *slog.Logger
}

// absence is how long to wait for a kind that the API server does not have, though it has its definition.
const absence = time.Second

// Run sends updates until ctx is done, or the API server refuses or is away. It keeps nothing between two runs.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	client, err := s.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	g, ctx := errgroup.WithContext(ctx)
	events := make(chan kube.Event, kube.Backlog)
	follow := func(w *kube.Watch) (stop func()) {
		ctx, cancel := context.WithCancel(ctx)
		g.Go(func() error { return untilThere(ctx, client, w, events) })
		return cancel
	}
	st := newState(s.Cluster, s.Namespaces, follow)
	st.statuses = s.Statuses
	st.statuses.forget()
	for _, k := range config.Resources() {
		follow(st.define(k))
	}
	g.Go(func() error {
		s.send(ctx, st, events, updates)
		return nil
	})
	return g.Wait()
}

// untilThere follows a kind that the API server may not have yet, or no longer.
func untilThere(ctx context.Context, client *kube.Client, w *kube.Watch, events chan<- kube.Event) error {
	for {
		err := client.Follow(ctx, w, events)
		if ctx.Err() != nil || !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-time.After(absence):
		case <-ctx.Done():
			return nil
		}
	}
}

// send takes events until ctx is done, and sends what changes. While nobody takes an update, it grows.
func (s Source) send(ctx context.Context, st *state, events <-chan kube.Event, updates chan<- model.Update) {
	synced := false
	for {
		var out chan<- model.Update
		if st.complete() && (len(st.unsent) > 0 || !synced) {
			out = updates
		}
		select {
		case e := <-events:
			kube.Burst(e, events, st.apply)
			s.warn(st)
		case out <- model.Update{Groups: st.unsent, Synced: true}:
			st.unsent, synced = map[string]model.Group{}, true
		case <-ctx.Done():
			st.stop()
			return
		}
	}
}

// warn logs what is ignored of objects that are served.
func (s Source) warn(st *state) {
	for _, p := range st.warnings {
		p.Log(s.Log)
	}
	st.warnings = nil
}
