package model

import (
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/api/networking/v1beta1"
)

// ProxyConfig returns the content of a workload's PROXY_CONFIG, merged as Istio's injector merges it. For each setting,
// the first of these that sets it is used: the ProxyConfig object of the workload's namespace that selects its labels,
// the annotation proxy.istio.io/config of its pod (nil for none), the object of the namespace without a selector, that
// of the root namespace, and MeshConfig's defaultConfig. If one of these places has several objects, only the oldest
// one is used. Environment variables and other maps are merged key by key.
func (m *Mesh) ProxyConfig(namespace string, labels map[string]string, annotation *meshconfig.ProxyConfig) *meshconfig.ProxyConfig {
	root := m.settings.RootNamespace()
	out := &meshconfig.ProxyConfig{}
	over(out, m.settings.Config.GetDefaultConfig())
	over(out, m.proxyConfigOf(root, nil))
	if namespace != root {
		over(out, m.proxyConfigOf(namespace, nil))
	}
	over(out, annotation)
	over(out, m.proxyConfigOf(namespace, labels))
	return out
}

// proxyConfigOf returns the oldest object of a namespace that selects labels or, if labels are empty, has no selector.
func (m *Mesh) proxyConfigOf(namespace string, labels map[string]string) *meshconfig.ProxyConfig {
	var first *Object
	for _, o := range m.used() {
		spec, ok := o.Spec.(*v1beta1.ProxyConfig)
		if !ok || o.Namespace != namespace || first != nil && first.Older(o.Meta) <= 0 {
			continue
		}
		selector := spec.GetSelector().GetMatchLabels()
		if (len(labels) == 0) == (len(selector) == 0) && Selects(selector, labels) {
			first = o
		}
	}
	if first == nil {
		return nil
	}
	spec := first.Spec.(*v1beta1.ProxyConfig)
	return &meshconfig.ProxyConfig{Concurrency: spec.Concurrency, ProxyMetadata: spec.EnvironmentVariables, Image: spec.Image}
}

// over merges from into into; values that from sets replace those of into.
func over(into, from *meshconfig.ProxyConfig) {
	if from == nil {
		return
	}
	proto.Merge(into, proto.CloneOf(from))
	if from.Concurrency != nil { // Merge treats 0 as unset, but 0 is a valid value
		into.Concurrency = proto.CloneOf(from.Concurrency)
	}
}

// proxyConfigs finds ProxyConfig objects of one namespace that select the same workloads.
func (j *judge) proxyConfigs() {
	owners := map[string]Meta{}
	for _, o := range j.mesh.used() {
		spec, ok := o.Spec.(*v1beta1.ProxyConfig)
		if !ok {
			continue
		}
		selector := spec.GetSelector().GetMatchLabels()
		j.selector(o.Meta, "spec.selector.matchLabels", selector, o.Namespace)
		key := o.Namespace + " " + selectorKey(selector)
		if winner, taken := owners[key]; taken {
			j.conflict(o.Meta, winner, "spec", "the same workloads follow %s, %s", name(winner), notUsed)
		} else {
			owners[key] = o.Meta
		}
	}
}
