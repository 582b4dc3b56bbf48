package ingress

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// anyHost is the host of rules that name none.
const anyHost = "*"

var hostName = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// readHost returns a host as requests name it, and what is wrong with it.
func readHost(written string) (host, fault string) {
	if written == "" {
		return anyHost, ""
	}
	host = strings.ToLower(written)
	if _, err := netip.ParseAddr(host); err == nil || !hostName.MatchString(host) || len(host) > 253 {
		return "", fmt.Sprintf("is %q, want a DNS name, or a wildcard such as *.foo.com", written)
	}
	return host, ""
}

// above is the wildcard that stands for a host, "" for none.
func above(host string) string {
	if _, rest, found := strings.Cut(host, "."); found && !isWildcard(host) {
		return "*." + rest
	}
	return ""
}

func isWildcard(host string) bool { return strings.HasPrefix(host, "*.") }

// oneLabel is a regular expression of authorities with one label in the place of a wildcard's star.
func oneLabel(wildcard string) string {
	return `(?i)[^.:]+` + regexp.QuoteMeta(strings.TrimPrefix(wildcard, "*")) + `(:[0-9]+)?`
}

// owners says which Ingress was the first that names a host, by host. Hosts must be claimed by age.
type owners map[string]*ingress

// claim gives a host to the namespace of an Ingress, unless it is another's. It returns the Ingress that has it then.
func (o owners) claim(host string, by *ingress) (other *ingress) {
	for _, h := range []string{host, above(host)} {
		if first := o[h]; h != "" && first != nil && first.Namespace != by.Namespace {
			return first
		}
	}
	if o[host] == nil {
		o[host] = by
	}
	return nil
}
