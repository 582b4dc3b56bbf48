package kubernetes

import (
	"context"
	"log/slog"

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
	// Begin is called by each Run before it lists objects, and an error ends the Run; nil for nothing.
	Begin func(context.Context, *kube.Client) error
	Log   *slog.Logger
}

// Run sends updates until ctx is done, or the API server refuses or cannot be reached. It keeps nothing between two
// runs.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	return kube.Run(ctx, s.Connect, func(ctx context.Context, session *kube.Session) error {
		if s.Begin != nil {
			if err := s.Begin(ctx, session.Client); err != nil {
				return err
			}
		}
		st := newState(s.Cluster, s.Namespaces, session.Start)
		st.statuses = s.Statuses
		st.statuses.forget()
		for _, k := range config.Resources() {
			session.Start(st.define(k))
		}
		kube.Outbox[model.Group, model.Update]{
			Apply: func(e kube.Event) {
				st.apply(e)
				s.warn(st)
			},
			Changes: st.changes,
			Update:  func(changed map[string]model.Group) model.Update { return model.Update{Groups: changed, Synced: true} },
		}.Send(ctx, session, updates)
		return nil
	})
}

// warn logs the settings of served objects that are ignored.
func (s Source) warn(st *state) {
	for _, p := range st.warnings {
		p.Log(s.Log)
	}
	st.warnings = nil
}
