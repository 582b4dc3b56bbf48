package model

import (
	"maps"

	networking "istio.io/api/networking/v1alpha3"
)

// A template describes workloads that another program starts and registers: a WorkloadGroup, a Deployment. It has no
// addresses, so no requests are sent to it.

// NewTemplate returns the template of an object that is not of Istio's API: labels, service account and named ports of
// the workloads that it starts.
func NewTemplate(meta Meta, labels map[string]string, account string, ports map[string]uint32) *Object {
	return &Object{Meta: meta, Spec: &networking.WorkloadGroup{
		Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: labels}, Template: &networking.WorkloadEntry{ServiceAccount: account, Ports: ports},
	}}
}

// TemplateLabels returns the labels of a template's workloads; nil for any other object.
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
