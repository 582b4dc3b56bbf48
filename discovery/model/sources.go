package model

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// source is the condition of a match, in any protocol, on the proxy from which a connection comes.
type source interface {
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

func sourcesOf(v *networking.VirtualService) (out []source) {
	for _, r := range v.Http {
		for _, match := range r.Match {
			out = append(out, match)
		}
	}
	for _, r := range v.Tls {
		for _, match := range r.Match {
			out = append(out, match)
		}
	}
	for _, r := range v.Tcp {
		for _, match := range r.Match {
			out = append(out, match)
		}
	}
	return out
}

// sourceLabels returns the keys of the source labels in a rule's matches.
func sourceLabels(v *networking.VirtualService) labelKeys {
	out := labelKeys{}
	for _, s := range sourcesOf(v) {
		out.read(s.GetSourceLabels())
	}
	return out
}

// sourceNamespaces returns the source namespaces in a rule's matches, sorted, with duplicates.
func sourceNamespaces(v *networking.VirtualService) (out []string) {
	for _, s := range sourcesOf(v) {
		if n := s.GetSourceNamespace(); n != "" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
