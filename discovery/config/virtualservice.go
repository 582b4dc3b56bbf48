package config

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func virtualServiceServed() served {
	return served{
		fields: []string{
			"hosts", "exportTo", "gateways", "http.name", "http.timeout",
			"http.match.uri.exact", "http.match.uri.prefix", "http.match.uri.regex",
			"http.match.headers.exact", "http.match.headers.prefix", "http.match.headers.regex",
			"http.route.destination.host", "http.route.destination.subset", "http.route.destination.port.number",
			"http.route.weight",
		},
		conditions: []string{"http.match"},
	}
}

// mesh is the reserved gateway that stands for all sidecars.
const mesh = "mesh"

func virtualService(f field, v *networking.VirtualService) {
	f.at("hosts").required(len(v.Hosts))
	hosts := unique{}
	for i, host := range v.Hosts {
		at := f.at("hosts").item(i)
		if _, err := netip.ParseAddr(host); err != nil {
			at.host(host, true)
		}
		hosts.add(at, strings.ToLower(host))
	}
	gateways(f.at("gateways"), v.Gateways)
	f.at("exportTo").exportTo(v.ExportTo)
	if len(v.Http)+len(v.Tls)+len(v.Tcp) == 0 {
		f.errorf("has no routes, want http")
	}
	for i, route := range v.Http {
		httpRoute(f.at("http").item(i), route)
	}
}

// gateways leaves out what is for gateways alone: to sidecars its rules do not apply.
func gateways(f field, names []string) {
	if len(names) > 0 && !slices.Contains(names, mesh) {
		f.dropf("is %s: gateways are not supported, and without \"mesh\" the object says nothing to sidecars, ignored",
			strings.Join(names, ", "))
		return
	}
	for i, name := range names {
		if name != mesh {
			f.item(i).warnf("gateway %q is not supported, ignored", name)
		}
	}
}

func httpRoute(f field, r *networking.HTTPRoute) {
	for i, m := range r.Match {
		httpMatch(f.at("match").item(i), m)
	}
	f.at("timeout").timeout(r.Timeout)
	f.at("route").required(len(r.Route))
	var sum int64
	for i, d := range r.Route {
		at := f.at("route").item(i)
		destination(at.at("destination"), d.GetDestination())
		if d.GetWeight() < 0 {
			at.at("weight").errorf("is %d, want 0 or more", d.Weight)
		}
		sum += int64(d.GetWeight())
	}
	if len(r.Route) > 1 && sum == 0 { // a single destination gets everything, whatever its weight
		f.at("route").errorf("the weights add up to 0, want more")
	}
}

func destination(f field, d *networking.Destination) {
	f.at("host").host(d.GetHost(), false)
	if d.GetSubset() != "" {
		f.at("subset").label(d.GetSubset())
	}
	if d.GetPort() != nil {
		f.at("port").at("number").port(d.Port.Number)
	}
}

func httpMatch(f field, m *networking.HTTPMatchRequest) {
	if uri := m.GetUri(); uri != nil {
		stringMatch(f.at("uri"), uri)
		if uri.MatchType == nil {
			f.at("uri").errorf("is empty, want exact, prefix or regex")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetHeaders())) {
		at := f.at("headers").at(name)
		if !headerName.MatchString(name) {
			at.errorf("the header's name is %q, want a token of HTTP", name)
		}
		// No value, and Istio's "*", ask for the header to be there.
		if match := m.Headers[name]; match.GetRegex() != "*" {
			stringMatch(at, match)
		}
	}
}

func stringMatch(f field, m *networking.StringMatch) {
	switch match := m.GetMatchType().(type) {
	case *networking.StringMatch_Prefix:
		f.at("prefix").required(len(match.Prefix))
	case *networking.StringMatch_Regex:
		if f.at("regex").required(len(match.Regex)) {
			f.at("regex").regex(match.Regex)
		}
	}
}
