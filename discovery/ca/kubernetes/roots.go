package kubernetes

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

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

// writeAgain is the least time between two writes in one namespace: another program may write the same ConfigMap again and again.
const writeAgain = 5 * time.Second

// due returns the namespaces whose ConfigMap is to be written now, and how long it takes until the next ones are, 0 for never. last
// is when each was written.
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
