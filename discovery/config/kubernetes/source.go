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

// Source sends the objects of a cluster.
type Source struct {
	Connect    func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Cluster    string
	Namespaces []string  // of the objects that are read; empty for all
	Statuses   *Statuses // writes the problems of objects to their status; nil for none
	Log        *slog.Logger
}

// absence is how long to wait before asking again for a kind that the API server does not serve, although it has its
// definition.
const absence = time.Second

// Run sends updates until ctx is done, or the API server refuses or cannot be reached. It keeps nothing between two
// runs.
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

// untilThere follows a kind that the API server may not serve yet, or no longer serves.
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

// send receives events until ctx is done, and sends changes. Until an update is received, further changes are added to
// it.
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

// warn logs the settings of served objects that are ignored.
func (s Source) warn(st *state) {
	for _, p := range st.warnings {
		p.Log(s.Log)
	}
	st.warnings = nil
}
