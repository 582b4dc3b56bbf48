package content

import (
	"fmt"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Withheld returns the reason why a reader does not get a secret, "" if it gets it. lacking says more of one that nobody has brought, "" for no more.
func (vs *Views) Withheld(name string, r Reader, lacking func(namespace, name string) string) string {
	s, _ := vs.Vault.of(r.Outbound.Namespace)
	switch {
	case vs.Snapshot(r)[SDS].Find(name) != nil:
		return ""
	case s.withholds(name):
		namespace, own := model.Lent(name)
		return fmt.Sprintf("DestinationRules of namespace %q may not use the key of secret %s/%s: want that namespace in the secret's destination-rule-namespaces, "+
			"or the rule in namespace %s", namespace, r.Outbound.Namespace, own, r.Outbound.Namespace)
	case s.set.Find(name) == nil:
		_, name := model.Lent(name)
		text := fmt.Sprintf("namespace %q has no secret of this name", r.Outbound.Namespace)
		if more := lacking(r.Outbound.Namespace, name); more != "" {
			text += ": " + more
		}
		return text
	case !s.opens(name, r):
		return fmt.Sprintf("service account %q is not among its service-accounts", r.Account)
	}
	return "no Gateway that selects the proxy names it, nor a DestinationRule that the proxy is under"
}

// withholds reports whether a name is that of a key of the shelf for a namespace that its secret does not list.
func (s shelf) withholds(name string) bool {
	namespace, own := model.Lent(name)
	_, key := s.accounts[own]
	return namespace != "" && key && s.set.Find(name) == nil
}
