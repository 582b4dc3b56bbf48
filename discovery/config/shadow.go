package config

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// shadows warns of routes and matches of HTTP that no request reaches, since one above takes all of theirs.
func shadows(f field, routes []*networking.HTTPRoute) {
	all := -1                       // the first route that takes every request
	prefixes := map[string]string{} // of paths that a match takes, by its other conditions and the prefix, with the place of the match
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
			m = unnamed(m)
			others := conditions(m)
			if above := covering(prefixes, others, m); above != "" {
				at.warnf("is never reached: %s takes all requests of its path%s", above, map[bool]string{true: ", under the same conditions"}[others != ""])
				continue
			}
			text, place := textOf(m), fmt.Sprintf("http[%d].match[%d]", i, j)
			if above, known := matches[text]; known {
				at.warnf("is never reached: %s is the same", above)
				continue
			}
			matches[text] = place
			if prefix := m.GetUri().GetPrefix(); prefix != "" && !m.GetIgnoreUriCase() {
				prefixes[others+" "+prefix] = place
			}
		}
	}
}

// textOf returns the same text for equal matches.
func textOf(m proto.Message) string {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // a string that is no UTF-8 is refused before
		return fmt.Sprint("unreadable ", m)
	}
	return string(text)
}

// conditions returns what a match asks for beside the path; "" for nothing.
func conditions(m *networking.HTTPMatchRequest) string {
	out := proto.CloneOf(m)
	out.Uri = nil
	return textOf(out)
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

// covering returns the place of a prefix that takes every path of a match, whatever else is in a request, or under the
// same conditions; "" if there is none.
func covering(prefixes map[string]string, others string, m *networking.HTTPMatchRequest) string {
	path := m.GetUri().GetPrefix()
	if exact := m.GetUri().GetExact(); exact != "" {
		path = exact
	}
	const longest = 1024 // the work is the square of it
	if len(prefixes) == 0 || m.GetIgnoreUriCase() {
		return ""
	}
	for n := 1; n <= min(len(path), longest); n++ {
		for _, key := range []string{" " + path[:n], others + " " + path[:n]} {
			if place := prefixes[key]; place != "" {
				return place
			}
		}
	}
	return ""
}

// shadowed warns of routes and matches of connections that no connection reaches: those below a route that takes every
// connection, and those that are the same as one above. matches returns those of a route.
func shadowed[R any, M proto.Message](f field, kind string, routes []R, matches func(R) []M) {
	all := -1
	known := map[string]string{}
	for i, route := range routes {
		if all >= 0 {
			f.item(i).warnf("is never reached: %s[%d] takes every connection", kind, all)
			continue
		}
		list := matches(route)
		if len(list) == 0 {
			all = i
		}
		for j, m := range list {
			text := textOf(m)
			if above, same := known[text]; same {
				f.item(i).at("match").item(j).warnf("is never reached: %s is the same", above)
				continue
			}
			known[text] = fmt.Sprintf("%s[%d].match[%d]", kind, i, j)
			if text == "" {
				all = i
			}
		}
	}
}
