package config

import (
	"slices"
	"testing"
)

func TestPlurals(t *testing.T) {
	var got []string
	for _, r := range Resources() {
		got = append(got, r.Plural+"."+r.Group)
	}
	if want := []string{
		"destinationrules.networking.istio.io", "gateways.networking.istio.io", "peerauthentications.security.istio.io", "proxyconfigs.networking.istio.io", "serviceentries.networking.istio.io",
		"sidecars.networking.istio.io", "virtualservices.networking.istio.io", "workloadentries.networking.istio.io", "workloadgroups.networking.istio.io",
		"authorizationpolicies.security.istio.io", "requestauthentications.security.istio.io",
	}; !slices.Equal(got, want) {
		t.Errorf("the resources are %q, want %q", got, want)
	}
}
