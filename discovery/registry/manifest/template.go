package manifest

import (
	"cmp"
	"regexp"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// template describes the pods of a Deployment, or of another object that starts pods.
type template struct {
	meta       model.Meta
	labels     map[string]string
	account    string
	containers [][]corev1.Container
	ports      map[string]uint32 // those that have a name
}

// templates returns the templates of a namespace, by name. An object that starts no pods is left out, and so is one
// that another object starts.
func (n namespace) templates() (out []template) {
	for _, o := range n {
		s, starts := o.Object.(*starter)
		if !starts {
			continue
		}
		spec, replicas := s.pods()
		if replicas != nil && *replicas == 0 || n.owned(o.Object) {
			continue
		}
		t := template{
			meta: o.meta, labels: spec.Labels, account: cmp.Or(spec.Spec.ServiceAccountName, "default"), // the API server's default
			containers: [][]corev1.Container{spec.Spec.Containers, sidecars(spec.Spec.InitContainers)}, ports: map[string]uint32{},
		}
		for _, list := range t.containers {
			for _, c := range list {
				for _, p := range c.Ports {
					if p.Name != "" && p.ContainerPort > 0 {
						t.ports[p.Name] = uint32(p.ContainerPort)
					}
				}
			}
		}
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(a.meta.Name, b.meta.Name), cmp.Compare(a.meta.Kind, b.meta.Kind)) < 0
	})
	return out
}

// unaddressed returns Pods without an address as templates: they are no endpoints, but selectors and subsets may mean them.
func unaddressed(pods []*corev1.Pod, n namespace) (out []template) {
	for _, p := range pods {
		if p.Status.PodIP == "" && len(p.Status.PodIPs) == 0 && len(p.Labels) > 0 && !n.owned(p) {
			out = append(out, template{meta: n[objectKey{"Pod", p.Name}].meta, labels: p.Labels, account: cmp.Or(p.Spec.ServiceAccountName, "default")})
		}
	}
	return out
}

// group returns the key of the group of a template. A Pod has another one in the catalog.
func group(of model.Meta) string {
	if of.Kind == "Pod" {
		return "unaddressed " + of.Key()
	}
	return of.Key()
}

func (n namespace) owned(o metav1.Object) bool {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return false
	}
	_, known := n[objectKey{owner.Kind, owner.Name}]
	return known
}

// names match the suffixes that Kubernetes appends to the name of an object of a kind for its pods.
var names = map[string]*regexp.Regexp{
	"Deployment":  regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`),
	"ReplicaSet":  regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{5}$`),
	"DaemonSet":   regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{5}$`),
	"StatefulSet": regexp.MustCompile(`^-[0-9]+$`),
}

// madeBy returns the template of a pod: the one whose kind gives such names; for a pod without a name the only
// template.
func madeBy(selected []template, pod string) (template, bool) {
	if pod == "" {
		if len(selected) == 1 {
			return selected[0], true
		}
		return template{}, false
	}
	for _, t := range selected {
		if len(pod) > len(t.meta.Name) && pod[:len(t.meta.Name)] == t.meta.Name && names[t.meta.Kind].MatchString(pod[len(t.meta.Name):]) {
			return t, true
		}
	}
	return template{}, false
}
