package kube

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// Objects returns the objects of type T in an event: those of a list, or the one that is new or has changed.
func Objects[T any](e Event) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, o := range e.All {
			if o, is := o.(T); is && !yield(o) {
				return
			}
		}
		if o, is := e.Put.(T); is {
			yield(o)
		}
	}
}

// Only returns the object of type T after an event of a watch of one object; the zero value if it does not exist.
func Only[T any](e Event) (found T) {
	for o := range Objects[T](e) {
		found = o
	}
	return found
}

// OneSecret returns a watch of one Secret.
func OneSecret(namespace, name string) *Watch {
	return &Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Object: &corev1.Secret{}, Namespace: namespace, Fields: "metadata.name=" + name,
	}
}

// FollowConfigMap calls apply with the content of a ConfigMap at the start and after each change, until ctx is done: nil
// if it does not exist.
func (s *Session) FollowConfigMap(ctx context.Context, namespace, name string, apply func(*corev1.ConfigMap)) {
	defer s.Start(&Watch{
		Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Object: &corev1.ConfigMap{}, Namespace: namespace, Fields: "metadata.name=" + name,
	})()
	s.Each(ctx, func(e Event) { apply(Only[*corev1.ConfigMap](e)) })
}
