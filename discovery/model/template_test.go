package model_test

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The labels of a template's workloads are known from the template, for subsets and for selectors, and so is the fact
// that they have no addresses.
func TestTemplateNotes(t *testing.T) {
	template := func(kind, name string, labels map[string]string) *model.Object {
		return model.NewTemplate(model.Meta{Kind: kind, Namespace: "shop", Name: name}, labels, "", nil)
	}
	labels := func(version string) map[string]string { return map[string]string{"app": "web", "version": version} }
	rule := &model.Object{Meta: model.Meta{Kind: "DestinationRule", Namespace: "shop", Name: "web"}, Spec: &networking.DestinationRule{
		Host: "web", Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}, {Name: "v2", Labels: map[string]string{"version": "v2"}}},
	}}
	sidecar := &model.Object{Meta: model.Meta{Kind: "Sidecar", Namespace: "shop", Name: "s"}, Spec: &networking.Sidecar{
		WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "client"}}, Egress: []*networking.IstioEgressListener{{Hosts: []string{"*/*"}}},
	}}
	entry := func(name string, labels map[string]string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "WorkloadEntry", Namespace: "shop", Name: name}, Spec: &networking.WorkloadEntry{Address: "10.0.0.1", Labels: labels}}
	}
	web := &model.Service{
		Right: model.RightFull, Registry: "Kubernetes", Host: "web.shop.svc.cluster.local", Namespace: "shop", Name: "web", Resolution: model.ResolutionStatic,
		Selector: map[string]string{"app": "web"}, Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
	}
	const want = "; want its pods' addresses: a WorkloadEntry with these labels, an EndpointSlice, Endpoints or a Pod"
	for name, test := range map[string]struct {
		objects []*model.Object
		want    []string
	}{
		"no address at all": {
			[]*model.Object{template("Deployment", "web-v1", labels("v1"))},
			[]string{"no-address Deployment/shop/web-v1 : no endpoint of web.shop.svc.cluster.local has app=web, version=v1" + want},
		},
		"one of two has an address": {
			[]*model.Object{template("Deployment", "web-v1", labels("v1")), template("StatefulSet", "web-v2", labels("v2")), entry("a", labels("v1")), rule},
			[]string{
				"empty-subset DestinationRule/shop/web spec.subsets[1].labels: no endpoint of web.shop.svc.cluster.local has version=v2: requests to the subset are answered 503; StatefulSet shop/web-v2 has these labels, and its pods have no addresses here",
				"no-address StatefulSet/shop/web-v2 : no endpoint of web.shop.svc.cluster.local has app=web, version=v2" + want,
			},
		},
		"labels that nothing has": {
			[]*model.Object{template("Deployment", "web-v1", labels("v1")), entry("a", labels("v1")), rule},
			[]string{"empty-subset DestinationRule/shop/web spec.subsets[1].labels: no endpoint of web.shop.svc.cluster.local has version=v2: requests to the subset are answered 503; one of its endpoints has app=web, version=v1"},
		},
		"an endpoint whose labels say less":  {[]*model.Object{template("Deployment", "web-v1", labels("v1")), entry("a", map[string]string{"app": "web"})}, nil},
		"a template that no service selects": {[]*model.Object{template("Deployment", "client", map[string]string{"app": "client"}), sidecar, entry("a", labels("v1"))}, nil},
		"a template of another namespace": {
			[]*model.Object{model.NewTemplate(model.Meta{Kind: "Deployment", Namespace: "other", Name: "web"}, labels("v1"), "", nil), entry("a", labels("v2"))}, nil,
		},
		"a WorkloadGroup": {
			[]*model.Object{template("WorkloadGroup", "vms", labels("v1"))},
			[]string{"no-address WorkloadGroup/shop/vms : no workload that is known has app=web, version=v1: none is registered by itself; want a WorkloadEntry with these labels for each"},
		},
		"a WorkloadGroup with a workload": {
			[]*model.Object{template("WorkloadGroup", "vms", labels("v1")), entry("a", labels("v1")), sidecar, template("WorkloadGroup", "more", map[string]string{"app": "client"})},
			[]string{"no-address WorkloadGroup/shop/more : no workload that is known has app=client: none is registered by itself; want a WorkloadEntry with these labels for each"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mesh := model.New(slices.Values([]model.Group{{Services: []*model.Service{web}, Objects: test.objects}}))
			var got []string
			for _, n := range mesh.Notes() {
				got = append(got, string(n.Code)+" "+n.Meta.Key()+" "+n.Path+": "+n.Message)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("the notes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}
