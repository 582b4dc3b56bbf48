package model

import (
	"maps"

	networking "istio.io/api/networking/v1alpha3"
)

// A template says what workloads look like that something else starts and registers: a WorkloadGroup, a Deployment. It has no
// addresses, so that nothing is sent there.

// NewTemplate returns the template of an object of another kind than Istio's: labels, service account and named ports of the
// workloads that it starts.
func NewTemplate(meta Meta, labels map[string]string, account string, ports map[string]uint32) *Object {
	return &Object{Meta: meta, Spec: &networking.WorkloadGroup{
		Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: labels}, Template: &networking.WorkloadEntry{ServiceAccount: account, Ports: ports},
	}}
}

// TemplateLabels are the labels that a template's workloads have; nil for any other object.
func TemplateLabels(o *Object) map[string]string {
	g, ok := o.Spec.(*networking.WorkloadGroup)
	if !ok {
		return nil
	}
	labels := maps.Clone(g.GetMetadata().GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, g.GetTemplate().GetLabels())
	return labels
}
