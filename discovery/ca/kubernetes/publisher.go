package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const (
	awaitRoots = time.Second      // how often it is looked which roots there are
	afterFault = 30 * time.Second // until a write that failed is tried again
)

// Publisher writes the roots of an authority into each namespace, and again where they were changed.
type Publisher struct {
	Roots      func() []byte // nil until they are known
	Namespaces []string      // empty for all
	Log        *slog.Logger
}

// Run follows the namespaces until ctx is done or a watch fails. It is a kube.Lead.
func (p *Publisher) Run(ctx context.Context, connect func() (*kube.Client, error)) error {
	return kube.Run(ctx, connect, p.follow)
}

// watchRoots returns a watch of the ConfigMaps of roots in a namespace, or in all.
func watchRoots(namespace string) *kube.Watch {
	return &kube.Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Object: &corev1.ConfigMap{}, Namespace: namespace, Fields: "metadata.name=" + RootsName,
		Strip: func(o any) {
			if c, ok := o.(*corev1.ConfigMap); ok {
				c.ManagedFields, c.Annotations, c.BinaryData = nil, nil, nil
			}
		},
	}
}

// round is one run of a Publisher.
type round struct {
	*Publisher
	client     *kube.Client
	namespaces map[string]bool
	found      map[string]held
	of         map[*kube.Watch]string // the namespace of a watch of ConfigMaps, "" for all
	last       map[string]time.Time
	faults     map[string]string
}

func (p *Publisher) follow(ctx context.Context, session *kube.Session) error {
	r := &round{p, session.Client, map[string]bool{}, map[string]held{}, map[*kube.Watch]string{}, map[string]time.Time{}, map[string]string{}}
	for _, namespace := range kube.Namespaces(p.Namespaces) {
		w := watchRoots(namespace)
		r.of[w] = namespace
		defer session.Start(w)()
		if namespace != "" {
			r.namespaces[namespace] = true
		}
	}
	if len(p.Namespaces) == 0 {
		defer session.Start(&kube.Watch{Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), Object: &corev1.Namespace{}, Strip: func(o any) {
			if n, ok := o.(*corev1.Namespace); ok {
				n.ManagedFields, n.Annotations, n.Labels = nil, nil, nil
			}
		}})()
	}
	timer := time.NewTimer(awaitRoots)
	defer timer.Stop()
	for {
		select {
		case e := <-session.Events():
			session.Apply(e, r.take)
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		if next := r.write(ctx, session.Listed()); next > 0 {
			timer.Reset(next)
		}
	}
}

// take stores the objects of an event.
func (r *round) take(e kube.Event) {
	namespace, ofRoots := r.of[e.Of]
	if e.List && ofRoots && namespace == "" {
		clear(r.found)
	} else if e.List && ofRoots {
		delete(r.found, namespace)
	} else if e.List {
		clear(r.namespaces)
	}
	for o := range kube.Objects[*corev1.ConfigMap](e) {
		r.found[o.Namespace] = held{o.Data[ca.RootsFile], o.ResourceVersion, o.Labels}
	}
	for o := range kube.Objects[*corev1.Namespace](e) {
		r.namespaces[o.Name] = o.Status.Phase != corev1.NamespaceTerminating
		if !r.namespaces[o.Name] {
			delete(r.namespaces, o.Name)
		}
	}
	switch o := e.Gone.(type) {
	case *corev1.ConfigMap:
		delete(r.found, o.Namespace)
	case *corev1.Namespace:
		delete(r.namespaces, o.Name)
		delete(r.last, o.Name)
		delete(r.faults, o.Name)
	}
}

// write writes what is due, and returns when to look again; 0 for never.
func (r *round) write(ctx context.Context, listed bool) time.Duration {
	roots := string(r.Roots())
	if roots == "" || !listed {
		return awaitRoots
	}
	all, next := due(r.namespaces, r.found, r.last, roots, time.Now())
	for _, namespace := range all {
		if ctx.Err() != nil {
			return 0
		}
		r.last[namespace] = time.Now()
		err := r.put(ctx, namespace, roots)
		switch {
		case err == nil, apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // what is there is told by the watch
			delete(r.faults, namespace)
			next = sooner(next, writeAgain)
		default:
			r.last[namespace] = time.Now().Add(afterFault - writeAgain)
			next = sooner(next, afterFault)
			if text := err.Error(); r.faults[namespace] != text && ctx.Err() == nil && !errors.Is(err, kube.ErrNotLeading) {
				r.faults[namespace] = text
				r.Log.Error("the roots of the mesh are not written into a namespace: Pods there do not start before", "configmap", namespace+"/"+RootsName, "err", err)
			}
		}
	}
	return sooner(next, awaitRoots) // the roots are others while one is replaced
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func (r *round) put(ctx context.Context, namespace, roots string) error {
	maps, err := r.client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, there := r.found[namespace]
	o := configMapOf(namespace, roots, found)
	if !there {
		return maps.Create(ctx, manager, o, nil)
	}
	r.Log.Warn("the roots in a namespace are not those of the mesh, and are written again", "configmap", namespace+"/"+RootsName)
	return maps.Update(ctx, RootsName, manager, o, nil)
}

// RootsName is the name of the ConfigMap with the roots in each namespace, as Istio has it.
const RootsName = "istio-ca-root-cert"

// aside are the namespaces of Kubernetes itself, which have no workloads of the mesh.
func aside(namespace string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease"}, namespace)
}

// held is a ConfigMap of roots in a namespace.
type held struct {
	roots, version string
	labels         map[string]string
}

// writeAgain is the least time between two writes in one namespace: another program may write the same ConfigMap again
// and again.
const writeAgain = 5 * time.Second

// due returns the namespaces whose ConfigMap is to be written now, and how long it takes until the next ones are, 0 for
// never. last is when each was written.
func due(namespaces map[string]bool, found map[string]held, last map[string]time.Time, roots string, now time.Time) (out []string, next time.Duration) {
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if o, there := found[namespace]; aside(namespace) || there && o.roots == roots {
			continue
		}
		if wait := last[namespace].Add(writeAgain).Sub(now); wait > 0 && !last[namespace].IsZero() {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		out = append(out, namespace)
	}
	return out, next
}

// configMapOf returns the ConfigMap of roots in a namespace: a new one, or the one that was found with other roots.
func configMapOf(namespace, roots string, found held) *corev1.ConfigMap {
	labels := map[string]string{"istio.io/config": "true"}
	maps.Copy(labels, found.labels)
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RootsName, ResourceVersion: found.version, Labels: labels},
		Data:       map[string]string{ca.RootsFile: roots},
	}
}
