package config

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Credentials returns the names of the secrets that a Gateway serves, sorted; none for any other object, and none of
// the secrets of Ingresses, and no issuer.
func Credentials(o *model.Object) (names []string) {
	gateway, is := o.Spec.(*networking.Gateway)
	if !is {
		return nil
	}
	for _, s := range gateway.Servers {
		names = append(names, s.GetTls().GetCredentialName(), s.GetTls().GetCaCertCredentialName())
		names = append(names, s.GetTls().GetCredentialNames()...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" || isIngressCredential(name) || isIssuer(name) })
}
