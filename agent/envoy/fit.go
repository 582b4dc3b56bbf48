package envoy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// prospect is what is known of a newcomer that is held at its gate.
type prospect struct {
	asksCDS, asksLDS bool
	cdsAnswered      bool             // accepted or refused
	ldsAccepted      bool             // at least once
	ldsRefused       bool             // at least once
	lacks            string           // of its first configuration, as the relay knows; empty for nothing
	refusal          string           // the last one of LDS in Envoy's log; empty if it is not known
	listeners        []netip.AddrPort // of those that were accepted and are bound
	taken            []netip.AddrPort // it could not bind them since its parent has them, and by hot restart it will inherit them
}

// unfit returns why a newcomer may not take over from a parent that listens at addresses; empty if it may. An LDS that was accepted counts
// as it is: what is missing in it was taken away. Of one that was refused in part, the rest counts if nothing is lost.
func (p prospect) unfit(addresses []netip.AddrPort) string {
	switch {
	case p.asksCDS && !p.cdsAnswered:
		return "CDS has not answered"
	case p.asksLDS && !p.ldsAccepted && !p.ldsRefused:
		return "LDS has not answered"
	case p.lacks != "":
		return p.lacks
	case !p.asksLDS || p.ldsAccepted:
		return ""
	}
	var lost []string
	for _, a := range addresses {
		if !slices.Contains(p.listeners, a) && !slices.Contains(p.taken, a) {
			lost = append(lost, a.String())
		}
	}
	if len(lost) == 0 {
		return ""
	}
	reason := "LDS was refused, and so it has no listener at " + strings.Join(lost, ", ")
	if p.refusal != "" {
		reason += ": " + p.refusal
	}
	return reason
}

// bindFailure is what Envoy says about an address that it cannot bind.
func bindFailure(a netip.AddrPort) string {
	return fmt.Sprintf("cannot bind '%s': Address already in use", a)
}
