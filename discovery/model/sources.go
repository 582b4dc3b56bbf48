package model

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// source is what a match of any protocol asks of the proxy that a connection comes from.
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

// sourceLabels are the keys of the labels that a rule's matches ask for.
func sourceLabels(v *networking.VirtualService) labelKeys {
	out := labelKeys{}
	for _, s := range sourcesOf(v) {
		out.read(s.GetSourceLabels())
	}
	return out
}

// sourceNamespaces are the namespaces that a rule's matches ask for, sorted, each as often as it is asked for.
func sourceNamespaces(v *networking.VirtualService) (out []string) {
	for _, s := range sourcesOf(v) {
		if n := s.GetSourceNamespace(); n != "" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
