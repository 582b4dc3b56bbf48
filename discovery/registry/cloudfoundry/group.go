package cloudfoundry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// port is the port at which clients call every route: gorouter serves all routes at the port of HTTP.
const port = 80

// groupOf converts a route. A route without instances becomes an empty group, which deletes it.
func groupOf(host string, route map[string]instance) model.Group {
	if len(route) == 0 {
		return model.Group{}
	}
	s := &model.Service{
		Registry: "CloudFoundry", Right: model.RightGuest, Host: host, Namespace: "default", Name: host, Resolution: model.ResolutionStatic,
		Ports: []model.Port{{Name: "http", Number: port, Protocol: model.HTTP2}},
	}
	tls, http2, balancing := 0, 0, ""
	var omitted []string // of instances with too many tags
	for _, place := range slices.Sorted(maps.Keys(route)) {
		i := route[place]
		if s.Origin.Record == nil {
			s.Origin.Record = &model.Record{UID: strings.TrimSpace("route to " + place + " " + i.labels[labelApp])}
		}
		s.Endpoints = append(s.Endpoints, model.Endpoint{
			Address: i.address, Ports: map[string]uint32{"http": i.port}, Labels: i.labels, Locality: model.Locality{Zone: i.zone},
		})
		if i.tls {
			tls++
		}
		if i.protocol == model.HTTP2 {
			http2++
		}
		if i.serverName != "" {
			s.SubjectAltNames = append(s.SubjectAltNames, i.serverName)
		}
		balancing = i.balancing
		if i.omitted > 0 {
			omitted = append(omitted, fmt.Sprintf("%s: %d tags are left out, want at most %d of %d bytes", place, i.omitted, model.MaxLabels, model.MaxLabel))
		}
	}
	slices.Sort(s.SubjectAltNames)
	s.SubjectAltNames = slices.Compact(s.SubjectAltNames)
	if http2 < len(route) {
		s.Ports[0].Protocol = model.HTTP
	}
	faults := omitted[:min(len(omitted), maxFaults):min(len(omitted), maxFaults)]
	mixed := func(n int, what, rest string) {
		if n > 0 && n < len(route) {
			faults = append(faults, fmt.Sprintf("%d of %d instances %s: %s", n, len(route), what, rest))
		}
	}
	mixed(tls, "take TLS, the others plain text", "want subsets by the label "+labelTLS+", each with its own trafficPolicy.tls")
	mixed(http2, "take HTTP/2, the others HTTP/1.1", "all are called by HTTP/1.1")
	if balancing != "" {
		faults = append(faults, fmt.Sprintf("options.loadbalancing is %q, which is not served: want trafficPolicy.loadBalancer of a DestinationRule",
			clip(balancing)))
	}
	return model.Group{Services: []*model.Service{s}, Faults: faults}
}
