package ads

import (
	"fmt"
)

// withheld returns the reason why a reader does not get a secret, "" if it gets it.
func (vs *views) withheld(name string, r reader) string {
	s, _ := vs.vault.of(r.Outbound.Namespace)
	switch {
	case vs.snapshot(r)[sds].find(name) != nil:
		return ""
	case s.set.find(name) == nil:
		return fmt.Sprintf("namespace %q has no secret of this name", r.Outbound.Namespace)
	case !s.opens(name, r):
		return fmt.Sprintf("service account %q is not among its service-accounts", r.account)
	}
	return "no Gateway that selects the proxy names it, nor a DestinationRule that the proxy is under"
}
