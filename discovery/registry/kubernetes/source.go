package kubernetes

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"

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
	watches := watches(s.Namespaces, s.Options.SystemNamespace)
	for i := range watches {
		follow := client.Follow
		if watches[i].without != "" {
			follow = client.FollowIfAllowed
		}
		g.Go(func() error { return follow(ctx, &watches[i].Watch, events) })
	}
	g.Go(func() error {
		s.send(ctx, watches, events, updates)
		return nil
	})
	return g.Wait()
}

// send receives events until ctx is done, and sends changes. Until an update is received, further changes are added to
// it.
func (s Source) send(ctx context.Context, watches []watched, events <-chan kube.Event, updates chan<- model.Update) {
	known := catalog.New(s.Options)
	of := map[*kube.Watch]watched{}
	unlisted, refused := map[*kube.Watch]bool{}, map[*kube.Watch]string{}
	for i := range watches {
		of[&watches[i].Watch], unlisted[&watches[i].Watch] = watches[i], true
	}
	unsent, synced := map[string]model.Group{}, false
	for {
		var out chan<- model.Update
		if len(unlisted) == 0 && (len(unsent) > 0 || !synced) {
			out = updates
		}
		select {
		case e := <-events:
			kube.Burst(e, events, func(e kube.Event) {
				if e.List || e.Refused != nil {
					delete(unlisted, e.Of)
				}
				if fault := refusal(e, of[e.Of].without); fault != refused[e.Of] && (e.List || fault != "") {
					refused[e.Of], unsent[e.Of.Named()] = fault, model.Group{}
					if fault != "" {
						unsent[e.Of.Named()] = model.Group{Faults: []string{fault}}
					}
				}
				apply(known, e, of[e.Of].kind, s.Options.Cluster)
			})
			if len(unlisted) == 0 {
				maps.Copy(unsent, known.Changes())
			}
		case out <- model.Update{Groups: unsent, Synced: true}:
			unsent, synced = map[string]model.Group{}, true
		case <-ctx.Done():
			return
		}
	}
}

// refusal returns a fault that names what is missing while the API server refuses some objects; "" while it refuses
// none.
func refusal(e kube.Event, without string) string {
	if e.Refused == nil {
		return ""
	}
	return fmt.Sprintf("there is none of %s: %v", without, e.Refused)
}

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
