package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Right is the right of a declaration to its host. Objects and Kubernetes' Services have owners with rights of their
// own; in other registries anybody who reaches them may write any record.
type Right uint8

// The rights, the narrowest first: a service of which nothing is said has that.
const (
	RightGuest  Right = iota // of a registry, to any other host: only while nobody else has it (see guests.go)
	RightSuffix              // of a registry, to a host below the registry's own suffix
	RightFull                // of an object, or of a Service of Kubernetes
)

// stored returns the rights by their numbers in files, in which the widest is 0.
func stored() [3]Right { return [3]Right{RightFull, RightSuffix, RightGuest} }

// MarshalJSON writes the number that files have.
func (r Right) MarshalJSON() ([]byte, error) {
	all := stored()
	number := slices.Index(all[:], r)
	if number < 0 {
		return nil, fmt.Errorf("there is no right %d", uint8(r))
	}
	return strconv.AppendInt(nil, int64(number), 10), nil
}

// UnmarshalJSON reads it. A form without a number keeps the narrowest right.
func (r *Right) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	all := stored()
	number, err := strconv.ParseUint(string(text), 10, 8)
	if err != nil || number >= uint64(len(all)) {
		return fmt.Errorf("right is %.20s", text)
	}
	*r = all[number]
	return nil
}

// Grant defines the hosts that a registry may give to its services.
type Grant struct {
	Suffix  string   // the registry's own, such as "service.eureka"; "" for none
	Domains []string // further ones, each with the hosts below it; "*" for every host
	Never   []string // domains of others, which Domains do not open
	Setting string   // that sets Domains, for messages
}

// Right returns the right of the registry to a host, which may be a wildcard. The error states which hosts it may give.
func (g Grant) Right(host string) (Right, error) {
	bare := strings.TrimPrefix(host, "*.")
	if g.Suffix != "" && below(host, g.Suffix) {
		return RightSuffix, nil
	}
	_, notAddress := netip.ParseAddr(bare)
	switch {
	case notAddress == nil:
		return RightGuest, fmt.Errorf("%s is an address, want a host name", host)
	case IsWildcard(host) && !strings.Contains(bare, "."):
		return RightGuest, fmt.Errorf("%s covers a whole top-level domain: want a wildcard such as *.example.com", host)
	}
	for _, domain := range g.Never {
		if below(bare, domain) || IsWildcard(host) && below(domain, bare) {
			return RightGuest, fmt.Errorf("%s is a name of %s, which this registry may not give", host, domain)
		}
	}
	if !slices.ContainsFunc(g.Domains, func(domain string) bool { return domain == "*" || below(bare, domain) }) {
		return RightGuest, fmt.Errorf("%s is not a name that this registry may give: want one below %s, or the domain in --%s", host, g.given(), g.Setting)
	}
	return RightGuest, nil
}

func (g Grant) given() string {
	all := slices.Clone(g.Domains)
	if g.Suffix != "" {
		all = slices.Insert(all, 0, g.Suffix)
	}
	return strings.Join(all, ", ")
}

// below reports whether a host is a domain or below it.
func below(host, domain string) bool {
	rest, ok := strings.CutSuffix(host, domain)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}
