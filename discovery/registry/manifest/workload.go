package manifest

import (
	"cmp"
	"regexp"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// starter is a Deployment, or another object of apps/v1 that starts pods. It has all fields of the specifications of k8s.io/api/apps/v1,
// so that a typing error is found, and none of that package's protobuf codec, a hundredth of the program.
type starter struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              any `json:"spec"` // a pointer to the specification of the kind; nil for null
	Status            any `json:"status"`
}

// pods returns the template of the pods and their number, nil for the default or where it has none.
func (s *starter) pods() (template corev1.PodTemplateSpec, replicas *int32) {
	switch x := s.Spec.(type) {
	case *deploymentSpec:
		return x.Template, x.Replicas
	case *statefulSetSpec:
		return x.Template, x.Replicas
	case *replicaSetSpec:
		return x.Template, x.Replicas
	case *daemonSetSpec:
		return x.Template, nil
	}
	return corev1.PodTemplateSpec{}, nil
}

// started is what all specifications have.
type started struct {
	Selector        *metav1.LabelSelector  `json:"selector"`
	Template        corev1.PodTemplateSpec `json:"template"`
	MinReadySeconds int32                  `json:"minReadySeconds"`
}

type update struct {
	Type          string         `json:"type"`
	RollingUpdate *rollingUpdate `json:"rollingUpdate"`
}

type rollingUpdate struct {
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
	MaxSurge       *intstr.IntOrString `json:"maxSurge"`
}

type deploymentSpec struct {
	started                 `json:",inline"`
	Replicas                *int32 `json:"replicas"`
	Strategy                update `json:"strategy"`
	RevisionHistoryLimit    *int32 `json:"revisionHistoryLimit"`
	Paused                  bool   `json:"paused"`
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds"`
}

type replicaSetSpec struct {
	started  `json:",inline"`
	Replicas *int32 `json:"replicas"`
}

type daemonSetSpec struct {
	started              `json:",inline"`
	UpdateStrategy       update `json:"updateStrategy"`
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit"`
}

type statefulSetSpec struct {
	started              `json:",inline"`
	Replicas             *int32                         `json:"replicas"`
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	ServiceName          string                         `json:"serviceName"`
	PodManagementPolicy  string                         `json:"podManagementPolicy"`
	UpdateStrategy       struct {
		Type          string `json:"type"`
		RollingUpdate *struct {
			Partition      *int32              `json:"partition"`
			MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
		} `json:"rollingUpdate"`
	} `json:"updateStrategy"`
	RevisionHistoryLimit                 *int32 `json:"revisionHistoryLimit"`
	PersistentVolumeClaimRetentionPolicy *struct {
		WhenDeleted string `json:"whenDeleted"`
		WhenScaled  string `json:"whenScaled"`
	} `json:"persistentVolumeClaimRetentionPolicy"`
	Ordinals *struct {
		Start int32 `json:"start"`
	} `json:"ordinals"`
}

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
