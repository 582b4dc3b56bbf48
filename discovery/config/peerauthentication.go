package config

import (
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
	selection "istio.io/api/type/v1beta1"
)

func peerAuthentication(f field, p *security.PeerAuthentication) {
	selector(f.at("selector"), p.Selector)
	if len(p.GetSelector().GetMatchLabels()) == 0 && len(p.PortLevelMtls) > 0 {
		f.at("portLevelMtls").errorf("is given without a selector, want the labels of the workloads whose ports these are")
	}
	if p.PortLevelMtls != nil && len(p.PortLevelMtls) == 0 {
		f.at("portLevelMtls").errorf("has no port, want one or more, or no portLevelMtls")
	}
	mutualTLS(f.at("mtls"), p.Mtls)
	for text, level := range byPort(p.PortLevelMtls) {
		at := f.at("portLevelMtls").key(text)
		if n, err := strconv.ParseUint(text, 10, 16); err != nil || n == 0 {
			at.errorf("the port is %s, want 1 to 65535", text)
		}
		mutualTLS(at, level)
	}
}

func byPort(levels map[uint32]*security.PeerAuthentication_MutualTLS) func(func(string, *security.PeerAuthentication_MutualTLS) bool) {
	return func(yield func(string, *security.PeerAuthentication_MutualTLS) bool) {
		ports := make([]uint32, 0, len(levels))
		for port := range levels {
			ports = append(ports, port)
		}
		slices.Sort(ports)
		for _, port := range ports {
			if !yield(strconv.FormatUint(uint64(port), 10), levels[port]) {
				return
			}
		}
	}
}

// mutualTLS requires a mode that is known.
func mutualTLS(f field, m *security.PeerAuthentication_MutualTLS) {
	if _, known := security.PeerAuthentication_MutualTLS_Mode_name[int32(m.GetMode())]; !known {
		f.at("mode").errorf("is %d, want UNSET, DISABLE, PERMISSIVE or STRICT", m.GetMode())
	}
}

// selector requires labels that are compared as they are: a wildcard would select nothing.
func selector(f field, s *selection.WorkloadSelector) {
	at := f.at("matchLabels")
	for key, value := range inOrder(s.GetMatchLabels()) {
		if strings.Contains(key, "*") || strings.Contains(value, "*") {
			at.key(key).errorf("is %q, want a label without a wildcard", key+"="+value)
		}
	}
	at.labels(s.GetMatchLabels())
	if s != nil {
		f.someLabels(s.MatchLabels)
	}
}

// failClosedPeerAuthentication returns what stands for a policy that has an error, and whose last good form is not
// known: STRICT for all that it could have named. That is its selector, if the selector has no fault; else, by a
// selector without labels, each workload.
func failClosedPeerAuthentication(read *security.PeerAuthentication, faults []Problem) *security.PeerAuthentication {
	out := &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_STRICT}}
	r := newPlaceless() // nobody has judged a selector beside what cannot be read
	selector(r.root().at("selector"), read.Selector)
	labels := len(read.GetSelector().GetMatchLabels())
	unclear := r.counts[Error] > 0 || labels == 0 && len(read.PortLevelMtls) > 0 || slices.ContainsFunc(faults, func(p Problem) bool {
		top, _, _ := strings.Cut(p.Path, ".")
		elsewhere := top == "metadata" || top == "apiVersion" || top == "kind" ||
			strings.HasPrefix(p.Path, "spec.mtls") || strings.HasPrefix(p.Path, "spec.portLevelMtls")
		return p.Severity == Error && !elsewhere
	})
	switch {
	case unclear:
		out.Selector = &selection.WorkloadSelector{}
	case labels > 0:
		out.Selector = read.Selector
	}
	return out
}
