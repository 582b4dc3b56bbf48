package model

import (
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/api/networking/v1beta1"
)

// ProxyConfig returns what a workload's PROXY_CONFIG is to say, merged as Istio's injector merges it. The first that says
// something goes before the others: the ProxyConfig object of the workload's namespace that selects its labels, the annotation
// proxy.istio.io/config of its pod (nil for none), the object of the namespace without a selector, that of the root namespace,
// and MeshConfig's defaultConfig. Of several objects in one place the oldest counts, alone. Environment variables and other
// maps are joined key by key.
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

// proxyConfigOf is the oldest object of a namespace that selects labels or, where they are empty, has no selector.
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

// over puts what is said in from over into.
func over(into, from *meshconfig.ProxyConfig) {
	if from == nil {
		return
	}
	proto.Merge(into, proto.CloneOf(from))
	if from.Concurrency != nil { // 0 counts, which Merge takes for unset
		into.Concurrency = proto.CloneOf(from.Concurrency)
	}
}

// proxyConfigs looks for ProxyConfig objects of a namespace for the same workloads.
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
