package kubernetes

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Settings sends the mesh's settings of a ConfigMap: MeshConfig in its key mesh, MeshNetworks in meshNetworks. A
// content that is refused changes nothing, and neither does the deletion of the ConfigMap. Until it existed and was
// valid, the source has not synced.
type Settings struct {
	Connect         func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Cluster         string
	Namespace, Name string
}

// Run sends updates until ctx is done, or the API server refuses or is away.
func (s Settings) Run(ctx context.Context, updates chan<- model.Update) error {
	client, err := s.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	g, ctx := errgroup.WithContext(ctx)
	events := make(chan kube.Event)
	g.Go(func() error {
		return client.Follow(ctx, &kube.Watch{
			Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Object: &corev1.ConfigMap{},
			Namespace: s.Namespace, Fields: "metadata.name=" + s.Name,
		}, events)
	})
	g.Go(func() error {
		synced := false
		for {
			select {
			case e := <-events:
				groups := s.groupsOf(e)
				synced = synced || !groups["MeshConfig"].Malformed() && !groups["MeshNetworks"].Malformed()
				select {
				case updates <- model.Update{Groups: groups, Synced: synced}:
				case <-ctx.Done():
					return nil
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// groupsOf returns the present content of the ConfigMap.
func (s Settings) groupsOf(e kube.Event) map[string]model.Group {
	var found *corev1.ConfigMap
	for _, o := range append(e.All, e.Put) {
		if m, ok := o.(*corev1.ConfigMap); ok {
			found = m
		}
	}
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
	if !has {
		return model.Group{} // Istio's defaults
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
	o.Origin = model.Origin{Record: &model.Record{Cluster: s.Cluster, UID: string(m.UID), Version: m.ResourceVersion}}
	return model.Group{Objects: []*model.Object{o}}
}
