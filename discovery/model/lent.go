package model

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// A secret belongs to the proxies' namespace. A DestinationRule of another namespace, other than the root namespace, has the client
// certificate of such a secret only if the secret lists its namespace: it is requested by a name that says so.

const lentPrefix = "destination-rule://"

// LentSecret returns the name by which proxies request a key for DestinationRules of a namespace other than their own.
func LentSecret(namespace, name string) string { return lentPrefix + namespace + "/" + name }

// Lent returns the namespace and the secret's own name of a name of LentSecret; the namespace is "" for any other name.
func Lent(name string) (namespace, own string) {
	rest, lent := strings.CutPrefix(name, lentPrefix)
	if !lent {
		return "", name
	}
	namespace, own, _ = strings.Cut(rest, "/")
	return namespace, own
}

// IsLent reports whether a name is one of LentSecret, which no credentialName may be.
func IsLent(name string) bool { return strings.HasPrefix(name, lentPrefix) }

// lent returns the policy of a namespace for proxies of another one: the keys that it names have the names of LentSecret.
func lent(r *networking.DestinationRule, namespace string) *networking.DestinationRule {
	if !slices.ContainsFunc(clientTLS(r), namesKey) {
		return r
	}
	out := proto.Clone(r).(*networking.DestinationRule)
	for _, t := range clientTLS(out) {
		if namesKey(t) {
			t.CredentialName = LentSecret(namespace, t.CredentialName)
		}
	}
	return out
}

// namesKey reports whether settings show a client certificate that is a secret.
func namesKey(t *networking.ClientTLSSettings) bool {
	return t.GetMode() == networking.ClientTLSSettings_MUTUAL && t.GetCredentialName() != ""
}

// clientTLS returns the TLS settings of all levels of a policy.
func clientTLS(r *networking.DestinationRule) (out []*networking.ClientTLSSettings) {
	policies := []*networking.TrafficPolicy{r.GetTrafficPolicy()}
	for _, s := range r.GetSubsets() {
		policies = append(policies, s.GetTrafficPolicy())
	}
	for _, p := range policies {
		out = append(out, p.GetTls())
		for _, level := range p.GetPortLevelSettings() {
			out = append(out, level.GetTls())
		}
	}
	return out
}

// lentKeys adds a note to each DestinationRule whose key a connected proxy of another namespace does not get. Reasons are looked up
// each time, since secrets change.
func (j *judge) lentKeys() {
	told := map[string]bool{}
	for _, w := range j.connected {
		for name, why := range w.Withheld {
			namespace, own := Lent(name)
			rules := j.mesh.destinationRules[namespace]
			if namespace == "" || rules == nil || told[w.Namespace+"/"+name] {
				continue
			}
			told[w.Namespace+"/"+name] = true
			for _, all := range rules.values {
				for _, r := range all {
					if slices.ContainsFunc(clientTLS(r.Spec), func(t *networking.ClientTLSSettings) bool { return namesKey(t) && t.CredentialName == own }) {
						j.note(WithheldSecret, r.Meta, "spec", "names the client certificate %q, which proxies of namespace %s do not get, so that they refuse these connections: %s", own, w.Namespace, why)
					}
				}
			}
		}
	}
}
