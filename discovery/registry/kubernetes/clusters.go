package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Clusters makes a Source for each cluster for which a Secret has a kubeconfig. It implements discovery.OnlySources.
//
// The Secrets have the label istio/multiCluster=true; each key is the name of a cluster, and its value a kubeconfig,
// which kube.Remote checks. While the server's own API server cannot be reached, or Run is started again, the clusters
// stay as they are.
type Clusters struct {
	Connect   func() (*kube.Client, error) // to the API server of the Secrets
	Namespace string                       // of the Secrets
	Own       string                       // name of the cluster that no Secret may have
	UserAgent string
	// Add starts the Source of a cluster, in the place of the one before; Remove ends it.
	Add    func(cluster string, s Source)
	Remove func(cluster string)
	Source Source // settings of the remote ones, without Connect and Options.Cluster

	running map[string]string // kubeconfigs by cluster
}

const (
	clusterLabel = "istio/multiCluster=true"
	// MaxClusters is how many clusters are followed.
	MaxClusters = 100
)

// OnlySources marks the Source as one without services of its own.
func (*Clusters) OnlySources() {}

// Run follows the Secrets until ctx is done, or the API server cannot be reached. Without the right to read them there
// are no clusters, and a fault reports that.
func (c *Clusters) Run(ctx context.Context, updates chan<- model.Update) error {
	return kube.Run(ctx, c.Connect, func(ctx context.Context, s *kube.Session) error {
		s.Start(&kube.Watch{
			Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Object: &corev1.Secret{}, Namespace: c.Namespace, Labels: clusterLabel,
			Optional: true, Strip: func(o any) {
				if s, ok := o.(*corev1.Secret); ok {
					s.ManagedFields, s.Annotations = nil, nil
				}
			},
		})
		c.follow(ctx, s, updates)
		return nil
	})
}

func (c *Clusters) follow(ctx context.Context, s *kube.Session, updates chan<- model.Update) {
	secrets, sent, listed := map[string]*corev1.Secret{}, map[string]model.Group{}, false
	for {
		var refused error
		select {
		case e := <-s.Events():
			s.Apply(e, func(e kube.Event) {
				applySecret(secrets, e)
				listed, refused = listed || e.List, e.Refused
			})
		case <-ctx.Done():
			return
		}
		now := map[string]model.Group{}
		if refused != nil {
			now["Secrets"] = model.Group{Faults: []string{fmt.Sprintf("no further clusters are known: %v", refused)}}
		}
		if listed {
			maps.Copy(now, c.set(secrets))
		}
		u := model.Update{Groups: map[string]model.Group{}, Synced: true}
		for key, group := range now {
			if !slices.Equal(sent[key].Faults, group.Faults) {
				u.Groups[key] = group
			}
		}
		for key := range sent {
			if _, still := now[key]; !still {
				u.Groups[key] = model.Group{}
			}
		}
		sent = now
		select {
		case updates <- u:
		case <-ctx.Done():
			return
		}
	}
}

func applySecret(secrets map[string]*corev1.Secret, e kube.Event) {
	if e.List {
		clear(secrets)
	}
	for s := range kube.Objects[*corev1.Secret](e) {
		secrets[s.Name] = s
	}
	if s, ok := e.Gone.(*corev1.Secret); ok {
		delete(secrets, s.Name)
	}
}

// claim is a key of a Secret: a cluster, and how to reach it.
type claim struct {
	secret  *corev1.Secret
	cluster string
}

func (c claim) key() string {
	return "Secret/" + c.secret.Namespace + "/" + c.secret.Name + "/" + c.cluster
}

// set starts and stops clusters so that those of these Secrets run. It returns their faults, as groups.
func (c *Clusters) set(secrets map[string]*corev1.Secret) map[string]model.Group {
	wrong := map[string]model.Group{}
	named := map[string]claim{} // by cluster
	next := map[string]string{}
	for _, one := range claims(secrets) {
		fault := func(format string, args ...any) {
			wrong[one.key()] = model.Group{Faults: []string{fmt.Sprintf(format, args...)}}
		}
		first, taken := named[one.cluster]
		switch {
		case one.cluster == c.Own:
			fault("is the name of this server's own cluster, which is not taken from a Secret")
			continue
		case taken:
			fault("is a cluster that Secret %s/%s has, which is older, or the first by name: want it in one Secret", first.secret.Namespace, first.secret.Name)
			continue
		case len(named) == MaxClusters:
			fault("is one cluster more than %d, and is not followed", MaxClusters)
			continue
		}
		named[one.cluster] = one
		text := one.secret.Data[one.cluster]
		last, runs := c.running[one.cluster]
		if runs {
			next[one.cluster] = last
		}
		if runs && last == string(text) {
			continue
		}
		connect, err := kube.Remote(text, c.UserAgent)
		if err != nil {
			kept := ""
			if runs {
				kept = "; the one before stays in use"
			}
			fault("%v%s", err, kept)
			continue
		}
		next[one.cluster] = string(text)
		source := c.Source
		source.Connect, source.Options.Cluster = connect, one.cluster
		c.Add(one.cluster, source)
	}
	for _, cluster := range slices.Sorted(maps.Keys(c.running)) {
		if _, still := next[cluster]; !still {
			c.Remove(cluster)
		}
	}
	c.running = next
	return wrong
}

// claims returns the keys of Secrets, those of the oldest Secret first.
func claims(secrets map[string]*corev1.Secret) (out []claim) {
	for _, s := range slices.SortedFunc(maps.Values(secrets), func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}) {
		for _, cluster := range slices.Sorted(maps.Keys(s.Data)) {
			out = append(out, claim{s, cluster})
		}
	}
	return out
}
