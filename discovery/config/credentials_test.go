package config

import (
	"slices"
	"testing"
)

func TestCredentials(t *testing.T) {
	for text, want := range map[string][]string{
		`{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: a}, spec: {servers: [
  {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.com], tls: {mode: SIMPLE, credentialName: b}},
  {port: {number: 444, name: b, protocol: HTTPS}, hosts: [a.com], tls: {mode: MUTUAL, credentialNames: [b, a], caCertCredentialName: c}},
  {port: {number: 80, name: c, protocol: HTTP}, hosts: [a.com]}]}}`: {"a", "b", "c"},
		`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, spec: {host: a, trafficPolicy: {tls: {mode: SIMPLE, credentialName: b}}}}`: nil,
	} {
		for _, item := range Read([]byte(text)) {
			if item.Object == nil {
				t.Fatal(item.Problems)
			}
			if got := Credentials(item.Object); !slices.Equal(got, want) {
				t.Errorf("%s names %q, want %q", item.Key, got, want)
			}
		}
	}
}
