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

// readHost returns a host in lower case, as requests name it, or its fault.
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

// above returns the wildcard that matches a host, or "" for a wildcard.
func above(host string) string {
	if _, rest, found := strings.Cut(host, "."); found && !isWildcard(host) {
		return "*." + rest
	}
	return ""
}

func isWildcard(host string) bool { return strings.HasPrefix(host, "*.") }

// oneLabel returns a regular expression that matches authorities with one label in the place of a wildcard's star.
func oneLabel(wildcard string) string {
	return `(?i)[^.:]+` + regexp.QuoteMeta(strings.TrimPrefix(wildcard, "*")) + `(:[0-9]+)?`
}
