package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Source sends the services and workloads of a cluster.
type Source struct {
	Connect    func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Namespaces []string                     // of the Services, EndpointSlices and Pods that are read; empty for all
	Options    catalog.Options
}

// Run sends updates until ctx is done, or the API server cannot be reached. Of a kind that it refuses the last objects
// stay, and the others are followed; but a run sends nothing before each kind of which services and workloads are made
// was listed once: endpoints without the labels of their Pods would leave their subsets. An API server that has just started
// refuses everything for a moment. Run keeps nothing between two runs.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	return kube.Run(ctx, s.Connect, func(ctx context.Context, session *kube.Session) error {
		s.send(ctx, session, watches(s.Namespaces, s.Options.SystemNamespace), updates)
		return nil
	})
}

// send follows the watches until ctx is done, and sends changes.
func (s Source) send(ctx context.Context, session *kube.Session, watches []watched, updates chan<- model.Update) {
	known := catalog.New(s.Options)
	of, unlisted := map[*kube.Watch]watched{}, map[*kube.Watch]bool{}
	for i := range watches {
		of[&watches[i].Watch] = watches[i]
		if watches[i].without == "" {
			unlisted[&watches[i].Watch] = true
		}
		session.Start(&watches[i].Watch)
	}
	refused, faults := map[*kube.Watch]model.Group{}, map[string]model.Group{}
	kube.Outbox[model.Group, model.Update]{
		Apply: func(e kube.Event) {
			if fault := refusal(e, of[e.Of].without); (e.List || e.Refused != nil) && !slices.Equal(fault.Faults, refused[e.Of].Faults) {
				refused[e.Of], faults[key(e.Of)] = fault, fault
			}
			if e.List {
				delete(unlisted, e.Of)
			}
			apply(known, e, of[e.Of].kind, s.Options.Cluster)
		},
		Changes: func() map[string]model.Group {
			out := map[string]model.Group{}
			if len(unlisted) == 0 {
				out = known.Changes()
			}
			maps.Copy(out, faults)
			clear(faults)
			return out
		},
		Update: func(changed map[string]model.Group) model.Update { return model.Update{Groups: changed, Synced: true} },
	}.Send(ctx, session, updates)
}

// refusal returns a group that names what is missing while the API server refuses some objects; an empty one while it
// refuses none.
func refusal(e kube.Event, without string) model.Group {
	switch {
	case e.Refused == nil:
		return model.Group{}
	case without == "":
		return model.Group{Faults: []string{e.Refused.Error()}, Unread: true}
	default:
		return model.Group{Faults: []string{fmt.Sprintf("there is none of %s: %v", without, e.Refused)}}
	}
}

// key is the key of the fault of a watch.
func key(w *kube.Watch) string { return strings.TrimSuffix(w.Named()+" of "+w.Namespace, " of ") }

// apply applies one event. Objects that are refused now stay in their last form.
func apply(known *catalog.Catalog, e kube.Event, kind catalog.Kind, cluster string) {
	put := func(o any) {
		if m, ok := o.(metav1.Object); ok {
			known.Put(o, catalog.Record(cluster, m))
		}
	}
	switch {
	case e.Refused != nil:
	case e.List:
		listed := make(map[catalog.Key]bool, len(e.All))
		for _, o := range e.All {
			put(o)
			key, _ := catalog.KeyOf(o)
			listed[key] = true
		}
		known.Keep(kind, func(key catalog.Key) bool {
			return listed[key] || e.Of.Namespace != "" && key.Namespace != e.Of.Namespace
		})
	case e.Put != nil:
		put(e.Put)
	default:
		if key, ok := catalog.KeyOf(e.Gone); ok {
			known.Delete(key)
		}
	}
}
