package config

import (
	"fmt"
	"strings"
)

// KindNamed returns the kind for a text: its name, its plural, or its short name in kubectl.
func KindNamed(text string) (string, error) {
	short := map[string]string{
		"ap": "AuthorizationPolicy", "dr": "DestinationRule", "gw": "Gateway", "pa": "PeerAuthentication", "ra": "RequestAuthentication", "se": "ServiceEntry", "vs": "VirtualService", "we": "WorkloadEntry", "wg": "WorkloadGroup",
	}
	low, _, _ := strings.Cut(strings.ToLower(text), ".") // virtualservices.networking.istio.io
	if kind := short[low]; kind != "" {
		return kind, nil
	}
	var names []string
	for _, r := range Resources() {
		if low == strings.ToLower(r.Kind) || low == r.Plural {
			return r.Kind, nil
		}
		names = append(names, r.Kind)
	}
	return "", fmt.Errorf("%s: want one of %s", text, strings.Join(names, ", "))
}
