package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Way is where a rule sends a share of the requests for a host.
type Way struct {
	Rule    Meta
	Gateway bool   // requests of gateways alone come by it
	Match   string // which requests; "" for all
	To      string // the host of the service; "" where the proxy itself answers
	Subset  string
	Port    uint32  // 0 for that of the request
	Percent float64 // of the requests that match
	Instead string  // what the proxy answers itself: "redirect", "403"
}

// Ways returns the ways of the requests for a host, by the rules that name it, in their order.
func (m *Mesh) Ways(host string) (out []Way) {
	for _, v := range m.virtualServices {
		if !slices.ContainsFunc(v.Spec.Hosts, func(pattern string) bool { return HostMatches(pattern, host) }) {
			continue
		}
		gateway := len(v.Spec.Gateways) > 0 && !slices.Contains(v.Spec.Gateways, MeshGateway)
		add := func(match, instead string, to []*networking.RouteDestination) {
			out = append(out, waysTo(Way{Rule: v.Meta, Gateway: gateway, Match: match, Instead: instead}, to)...)
		}
		for _, r := range v.Spec.Http {
			var to []*networking.RouteDestination
			for _, d := range r.Route {
				to = append(to, &networking.RouteDestination{Destination: d.Destination, Weight: d.Weight})
			}
			add(matchesText(r.Match), insteadOf(r), to)
		}
		for _, r := range v.Spec.Tls {
			var names []string
			for _, match := range r.Match {
				names = append(names, match.SniHosts...)
			}
			add("TLS to "+strings.Join(names, ", "), "", r.Route)
		}
		for _, r := range v.Spec.Tcp {
			add("TCP", "", r.Route)
		}
	}
	return out
}

// HasWays returns the first host of a service for which a rule has ways; "" for none.
func (m *Mesh) HasWays() string {
	for _, v := range m.virtualServices {
		for _, host := range v.Spec.Hosts {
			if m.Service(host) != nil {
				return host
			}
		}
	}
	return ""
}

func waysTo(w Way, to []*networking.RouteDestination) (out []Way) {
	var sum float64
	for _, d := range to {
		sum += float64(d.Weight)
	}
	for _, d := range to {
		one := w
		one.To, one.Subset, one.Port = d.GetDestination().GetHost(), d.GetDestination().GetSubset(), d.GetDestination().GetPort().GetNumber()
		if one.Percent = 100 / float64(len(to)); sum > 0 {
			one.Percent = 100 * float64(d.Weight) / sum
		}
		out = append(out, one)
	}
	if len(to) == 0 && w.Instead != "" {
		w.Percent = 100
		return []Way{w}
	}
	return out
}

func insteadOf(r *networking.HTTPRoute) string {
	switch {
	case r.DirectResponse != nil:
		return fmt.Sprint(r.DirectResponse.Status)
	case r.Redirect != nil:
		return "redirect"
	}
	return ""
}

func matchesText(all []*networking.HTTPMatchRequest) string {
	var out []string
	for _, match := range all {
		var parts []string
		add := func(what string, s *networking.StringMatch) {
			if text := stringMatchText(s); text != "" {
				parts = append(parts, what+" "+text)
			}
		}
		add("path", match.Uri)
		add("method", match.Method)
		add("authority", match.Authority)
		for _, name := range slices.Sorted(maps.Keys(match.Headers)) {
			add("header "+name, match.Headers[name])
		}
		for _, name := range slices.Sorted(maps.Keys(match.QueryParams)) {
			add("parameter "+name, match.QueryParams[name])
		}
		if len(parts) == 0 {
			return "" // this one takes all
		}
		out = append(out, strings.Join(parts, " and "))
	}
	return strings.Join(out, ", or ")
}

func stringMatchText(s *networking.StringMatch) string {
	switch {
	case s == nil:
		return ""
	case s.GetPrefix() != "":
		return s.GetPrefix() + "…"
	case s.GetRegex() != "":
		return "~ " + s.GetRegex()
	case s.GetExact() != "":
		return s.GetExact()
	}
	return "present"
}
