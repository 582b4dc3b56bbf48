package config

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// shadows warns of routes and matches that no request reaches, since one above takes all of theirs.
func shadows(f field, routes []*networking.HTTPRoute) {
	all := -1                       // the first route that takes every request
	prefixes := map[string]string{} // of paths that a match takes whatever else is in the request, with the place of the match
	matches := map[string]string{}  // matches as texts, with their places
	for i, route := range routes {
		if all >= 0 {
			f.item(i).warnf("is never reached: http[%d] takes every request", all)
			continue
		}
		if len(route.GetMatch()) == 0 {
			all = i
		}
		for j, m := range route.GetMatch() {
			at := f.item(i).at("match").item(j)
			if above := covering(prefixes, m); above != "" {
				at.warnf("is never reached: %s takes all requests of its path", above)
				continue
			}
			text, err := proto.MarshalOptions{Deterministic: true}.Marshal(unnamed(m))
			place := fmt.Sprintf("http[%d].match[%d]", i, j)
			if above, known := matches[string(text)]; known && err == nil {
				at.warnf("is never reached: %s is the same", above)
				continue
			}
			matches[string(text)] = place
			if prefix := m.GetUri().GetPrefix(); prefix != "" && !m.GetIgnoreUriCase() && proto.Equal(unnamed(m), &networking.HTTPMatchRequest{Uri: m.Uri}) {
				prefixes[prefix] = place
			}
		}
	}
}

// unnamed returns a match without what does not choose requests.
func unnamed(m *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	if m.GetName() == "" && m.GetStatPrefix() == "" {
		return m
	}
	out := proto.CloneOf(m)
	out.Name, out.StatPrefix = "", ""
	return out
}

// covering returns the place of a prefix that takes every path of a match; "" if there is none.
func covering(prefixes map[string]string, m *networking.HTTPMatchRequest) string {
	path := m.GetUri().GetPrefix()
	if exact := m.GetUri().GetExact(); exact != "" {
		path = exact
	}
	const longest = 1024 // the work is the square of it
	if len(prefixes) == 0 || m.GetIgnoreUriCase() {
		return ""
	}
	for n := 1; n <= min(len(path), longest); n++ {
		if place := prefixes[path[:n]]; place != "" {
			return place
		}
	}
	return ""
}
