package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/api/networking/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Of ProxyConfig objects, the annotation and MeshConfig, the narrower one has priority, and of equally narrow ones the
// oldest.
func TestProxyConfig(t *testing.T) {
	object := func(namespace, name, selector string, age int, concurrency int32, variables ...string) *model.Object {
		spec := &v1beta1.ProxyConfig{EnvironmentVariables: map[string]string{}}
		if concurrency >= 0 {
			spec.Concurrency = wrapperspb.Int32(concurrency)
		}
		if key, value, ok := strings.Cut(selector, "="); ok {
			spec.Selector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{key: value}}
		}
		for _, v := range variables {
			spec.EnvironmentVariables[v] = namespace + "/" + name
		}
		return &model.Object{
			Meta: model.Meta{Kind: "ProxyConfig", Namespace: namespace, Name: name, Created: time.Unix(int64(1000-age), 0)}, Spec: spec,
		}
	}
	mesh := &model.Object{
		Meta: model.Meta{Kind: "MeshConfig", Name: "default"},
		Spec: &meshconfig.MeshConfig{RootNamespace: "root", DefaultConfig: &meshconfig.ProxyConfig{
			Concurrency: wrapperspb.Int32(1), ProxyMetadata: map[string]string{"A": "mesh", "B": "mesh"},
		}},
	}
	objects := []*model.Object{
		mesh,
		object("root", "all", "", 1, 2, "B"),
		object("root", "only", "app=a", 1, 9, "B"), // for workloads of its own namespace only
		object("shop", "young", "", 1, 8, "C"),
		object("shop", "old", "", 2, 3, "C"),
		object("shop", "a", "app=a", 1, 0, "D"),
		object("shop", "a-young", "app=a", 0, 7, "D"),
		object("bare", "metadata", "", 1, -1, "C"),
	}
	m := model.New(slices.Values([]model.Group{{Objects: objects}}))
	annotation := &meshconfig.ProxyConfig{Concurrency: wrapperspb.Int32(5), ProxyMetadata: map[string]string{"D": "annotation"}}
	for _, test := range []struct {
		name, namespace, app string
		annotation           *meshconfig.ProxyConfig
		want                 string
	}{
		{"the root namespace's, over MeshConfig", "other", "a", nil, "2 map[A:mesh B:root/all]"},
		{"in the root namespace a selector counts", "root", "a", nil, "9 map[A:mesh B:root/only]"},
		{"the namespace's oldest", "shop", "", nil, "3 map[A:mesh B:root/all C:shop/old]"},
		{"one that says nothing of workers", "bare", "", nil, "2 map[A:mesh B:root/all C:bare/metadata]"},
		{"the annotation", "shop", "b", annotation, "5 map[A:mesh B:root/all C:shop/old D:annotation]"},
		{"the annotation of a workload without labels", "shop", "none", annotation, "5 map[A:mesh B:root/all C:shop/old D:annotation]"},
		{"a selector, over the annotation; 0 counts", "shop", "a", annotation, "0 map[A:mesh B:root/all C:shop/old D:shop/a]"},
	} {
		labels := map[string]string{"app": test.app, "version": "v1"}
		if test.app == "none" {
			labels = nil
		}
		got := m.ProxyConfig(test.namespace, labels, test.annotation)
		if text := fmt.Sprint(got.GetConcurrency().GetValue(), " ", got.ProxyMetadata); text != test.want {
			t.Errorf("%s: got %s, want %s", test.name, text, test.want)
		}
	}
	if got := mesh.Spec.(*meshconfig.MeshConfig).DefaultConfig; len(got.ProxyMetadata) != 2 || got.Concurrency.Value != 1 {
		t.Errorf("the mesh's own was changed: %v", got)
	}
	var conflicts []string
	for _, n := range m.Notes() {
		conflicts = append(conflicts, n.Meta.Name+" "+n.Other.Name)
	}
	if want := []string{"young old", "a-young a"}; !slices.Equal(conflicts, want) {
		t.Errorf("warned about %v, want %v", conflicts, want)
	}
}
