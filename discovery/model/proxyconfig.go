package model

import (
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/api/networking/v1beta1"
)

// ProxyConfigLayer is one place that sets the ProxyConfig of a workload.
type ProxyConfigLayer struct {
	From     string // "MeshConfig defaultConfig", or "ProxyConfig NAMESPACE/NAME"
	Selected bool   // its object selects the workload's labels, so it has priority over the annotation of the pod
	Config   *meshconfig.ProxyConfig
}

// ProxyConfig returns the content of a workload's PROXY_CONFIG, merged as Istio's injector merges it: the layers of
// ProxyConfigLayers, with the annotation proxy.istio.io/config of its pod (nil for none) below those that are Selected.
// A later one replaces the values of an earlier one. Environment variables and other maps are merged key by key, lists
// are joined.
func (m *Mesh) ProxyConfig(namespace string, labels map[string]string, annotation *meshconfig.ProxyConfig) *meshconfig.ProxyConfig {
	out := &meshconfig.ProxyConfig{}
	layers := m.ProxyConfigLayers(namespace, labels)
	for _, selected := range []bool{false, true} {
		for _, l := range layers {
			if l.Selected == selected {
				over(out, l.Config)
			}
		}
		if !selected {
			over(out, annotation)
		}
	}
	return out
}

// ProxyConfigLayers returns the places that set the ProxyConfig of a workload, the one with the least priority first:
// MeshConfig's defaultConfig, the ProxyConfig object of the root namespace without a selector, that of the workload's
// namespace, and the one of the workload's namespace that selects its labels. Of several objects in one of these places
// only the oldest is used. The result must not be changed.
func (m *Mesh) ProxyConfigLayers(namespace string, labels map[string]string) (out []ProxyConfigLayer) {
	if c := m.settings.Config.GetDefaultConfig(); c != nil {
		out = append(out, ProxyConfigLayer{From: "MeshConfig defaultConfig", Config: c})
	}
	add := func(namespace string, selects func(selector map[string]string) bool, selected bool) {
		if o := m.proxyConfigOf(namespace, selects); o != nil {
			spec := o.Spec.(*v1beta1.ProxyConfig)
			config := &meshconfig.ProxyConfig{Concurrency: spec.Concurrency, ProxyMetadata: spec.EnvironmentVariables, Image: spec.Image}
			out = append(out, ProxyConfigLayer{From: "ProxyConfig " + o.Namespace + "/" + o.Name, Selected: selected, Config: config})
		}
	}
	all := func(selector map[string]string) bool { return len(selector) == 0 }
	root := m.settings.RootNamespace()
	add(root, all, false)
	if namespace != root {
		add(namespace, all, false)
	}
	add(namespace, func(selector map[string]string) bool { return len(selector) > 0 && Selects(selector, labels) }, true)
	return out
}

// proxyConfigOf returns the oldest object of a namespace whose selector is wanted; nil for none.
func (m *Mesh) proxyConfigOf(namespace string, wanted func(selector map[string]string) bool) (first *Object) {
	for _, o := range m.used() {
		spec, ok := o.Spec.(*v1beta1.ProxyConfig)
		if !ok || o.Namespace != namespace || first != nil && first.Older(o.Meta) <= 0 {
			continue
		}
		if wanted(spec.GetSelector().GetMatchLabels()) {
			first = o
		}
	}
	return first
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
