package content

import (
	"fmt"
)

// Withheld returns the reason why a reader does not get a secret, "" if it gets it. lacking says more of one that nobody has brought, "" for no more.
func (vs *Views) Withheld(name string, r Reader, lacking func(namespace, name string) string) string {
	s, _ := vs.Vault.of(r.Outbound.Namespace)
	switch {
	case vs.Snapshot(r)[SDS].Find(name) != nil:
		return ""
	case s.set.Find(name) == nil:
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
