package inject_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/internal/golden"
)

const authorityAddress = "caAddress: istio-pilot.istio-system.svc:15012"

// With an authority the Pod has a token and the authority's roots, its agent is told of both and of no other discovery, and clients
// are told that it takes mutual TLS.
func TestEnrolled(t *testing.T) {
	i := injector(t, "image: example/proxy:1\n"+authorityAddress)
	out, notes, err := i.Manifest([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {serviceAccountName: web, containers: [{name: app, image: example/app}]}"), "shop", nil)
	if err != nil || len(notes) > 0 {
		t.Fatalf("%v, %v", notes, err)
	}
	golden.Text(t, string(out))
	again, _, err := i.Manifest(out, "shop", nil)
	if err != nil || string(again) != string(out) {
		t.Errorf("injected again it is another: %v\n%s", err, again)
	}
}

func TestWhoTakesMutualTLS(t *testing.T) {
	const container = "\nspec: {containers: [{name: app}]}"
	for _, c := range []struct{ name, config, pod, want string }{
		{"with an authority", authorityAddress, "metadata: {name: p}", "istio"},
		{"without one", "", "metadata: {name: p}", ""},
		{"a Pod that says otherwise", authorityAddress, "metadata: {name: p, labels: {security.istio.io/tlsMode: disabled}}", "disabled"},
		{"nothing is redirected", authorityAddress, "metadata: {name: p, annotations: {sidecar.istio.io/interceptionMode: NONE}}", ""},
	} {
		r, err := injector(t, c.config).Pod(inject.Namespace{Name: "shop"}, parse(t, c.pod+container), nil)
		if err != nil {
			t.Fatal(err)
		}
		labels, _ := r.Pod["metadata"].(map[string]any)["labels"].(map[string]any)
		if got, _ := labels["security.istio.io/tlsMode"].(string); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Discovery is where the authority is, unless another address is given.
func TestDiscoveryOfAnAuthority(t *testing.T) {
	for _, c := range []struct{ config, pod, want string }{
		{"", "metadata: {name: p}", "--discoveryAddress istio-pilot.istio-system.svc:15010 --serviceCluster"},
		{authorityAddress, "metadata: {name: p}", "--discoveryAddress istio-pilot.istio-system.svc:15012 --caAddress istio-pilot.istio-system.svc:15012 --caRoots"},
		{authorityAddress + "\ndiscoveryAddress: other:1", "metadata: {name: p}", "--discoveryAddress other:1 --caAddress istio-pilot.istio-system.svc:15012"},
		{authorityAddress, "metadata: {name: p, annotations: {proxy.istio.io/config: 'discoveryAddress: own:1'}}", "--caAddress istio-pilot.istio-system.svc:15012"},
	} {
		r, err := injector(t, c.config).Pod(inject.Namespace{Name: "shop"}, parse(t, c.pod+"\nspec: {containers: [{name: app}]}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(r.Pod["spec"])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "- ", "")), " "); !strings.Contains(got, c.want) {
			t.Errorf("%s, %s: %s, want %s", c.config, c.pod, got, c.want)
		}
	}
	if _, err := inject.ReadConfig("caAddress: nowhere"); err == nil || !strings.Contains(err.Error(), "config: caAddress: ") {
		t.Errorf("an address that is none: %v", err)
	}
}
