package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	corev1 "k8s.io/api/core/v1"

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

// Settings sends the mesh's settings of a ConfigMap: MeshConfig in its key mesh, MeshNetworks in meshNetworks, which may
// be missing. A content that is refused changes nothing, and neither does the deletion of the ConfigMap or of its key
// mesh. Until it existed and was valid, the source has not synced.
type Settings struct {
	Connect         func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Cluster         string
	Namespace, Name string
	Log             config.Logger // gets each warning once

	warn func(config.Problem)
}

// Run sends updates until ctx is done, or the API server refuses or is away.
func (s Settings) Run(ctx context.Context, updates chan<- model.Update) error {
	known := map[config.Problem]bool{}
	s.warn = func(p config.Problem) {
		if !known[p] {
			known[p] = true
			p.Log(s.Log)
		}
	}
	return kube.Run(ctx, s.Connect, func(ctx context.Context, session *kube.Session) error {
		synced := false
		session.FollowConfigMap(ctx, s.Namespace, s.Name, func(found *corev1.ConfigMap) {
			groups := s.groupsOf(found)
			synced = synced || !groups["MeshConfig"].Malformed() && !groups["MeshNetworks"].Malformed()
			select {
			case updates <- model.Update{Groups: groups, Synced: synced}:
			case <-ctx.Done():
			}
		})
		return nil
	})
}

// groupsOf returns the content of the ConfigMap, which may be nil: it does not exist.
func (s Settings) groupsOf(found *corev1.ConfigMap) map[string]model.Group {
	if found == nil {
		return map[string]model.Group{"MeshConfig": {Faults: []string{fmt.Sprintf("ConfigMap %s/%s is not there", s.Namespace, s.Name)}}}
	}
	out := map[string]model.Group{}
	for kind, key := range maps.All(map[string]string{"MeshConfig": "mesh", "MeshNetworks": "meshNetworks"}) {
		out[kind] = s.groupOf(found, kind, key)
	}
	return out
}

func (s Settings) groupOf(m *corev1.ConfigMap, kind, key string) model.Group {
	text, has := m.Data[key]
	switch {
	case !has && kind == "MeshConfig": // a key that was mistyped must not open what MeshConfig closes
		return model.Group{Faults: []string{"data.mesh is not there, want a MeshConfig, {} for Istio's defaults"}}
	case !has:
		return model.Group{} // one network
	}
	o, problems := config.DecodeSettings(kind, "", []byte(text))
	if o == nil {
		var faults []string
		for _, p := range problems {
			if p.Severity == config.Error {
				faults = append(faults, fmt.Sprintf("data.%s, line %d: %s", key, p.Line, faultOf(p)))
			}
		}
		return model.Group{Faults: faults}
	}
	for _, p := range problems {
		s.warn(p)
	}
	o.Origin = model.Origin{Record: &model.Record{Cluster: s.Cluster, UID: string(m.UID), Version: m.ResourceVersion}}
	return model.Group{Objects: []*model.Object{o}}
}
