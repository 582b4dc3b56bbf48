package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
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
