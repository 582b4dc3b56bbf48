package identity

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

// Annotations of a Pod that leave inbound traffic out of its redirection, by Istio's names.
const (
	includeInbound    = "traffic.sidecar.istio.io/includeInboundPorts"
	excludeInbound    = "traffic.sidecar.istio.io/excludeInboundPorts"
	excludeInterfaces = "traffic.sidecar.istio.io/excludeInterfaces"
)

// Redirected returns which ports of the workload are to be reached through Envoy only, by what the proxy says of itself; nil if it does not
// say so of any, as where all traffic of an interface is left out. own are ports of the agent and of Envoy.
func Redirected(id node.ID, m node.Metadata, own ...int) func(port uint16) bool {
	said, _ := m.Extra["ANNOTATIONS"].(map[string]any)
	text := func(key string) (string, bool) {
		value, set := said[key].(string)
		return strings.TrimSpace(value), set
	}
	if interfaces, _ := text(excludeInterfaces); interfaces != "" {
		return nil
	}
	if id.Role != node.Sidecar || m.InterceptionMode != node.Redirect && m.InterceptionMode != node.TProxy {
		return nil
	}
	included, only := text(includeInbound)
	if only = only && included != "*"; only && included == "" {
		return nil
	}
	excluded, _ := text(excludeInbound)
	take, leave := portsIn(included), portsIn(excluded)
	return func(port uint16) bool {
		return !slices.Contains(own, int(port)) && !leave.has(port) && (!only || take.has(port))
	}
}

// ranges are ranges of ports, from and to.
type ranges [][2]uint64

func (r ranges) has(port uint16) bool {
	return slices.ContainsFunc(r, func(one [2]uint64) bool { return one[0] <= uint64(port) && uint64(port) <= one[1] })
}

// portsIn reads a list of ports and ranges, 80,8000-8010. What is none is left out: pod-init refuses it.
func portsIn(list string) (out ranges) {
	for item := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err1 == nil && err2 == nil {
			out = append(out, [2]uint64{from, to})
		}
	}
	return out
}
