package model

import (
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// clusterDomain ends the full names of services that are written short.
const clusterDomain = "svc.cluster.local"

// Qualify resolves a host as written in an object of namespace: a name without a dot is a service of that
// namespace, as Istio reads it ("reviews" → "reviews.default.svc.cluster.local"). Any other is returned in lower case.
func Qualify(host, namespace string) string {
	host = strings.ToLower(host)
	if host == "" || host == "*" || strings.Contains(host, ".") {
		return host
	}
	return host + "." + namespace + "." + clusterDomain
}

// qualifyVirtualService returns a copy whose hosts and destinations are full names.
func qualifyVirtualService(in *networking.VirtualService, namespace string) *networking.VirtualService {
	out := proto.Clone(in).(*networking.VirtualService)
	for i, host := range out.Hosts {
		out.Hosts[i] = Qualify(host, namespace)
	}
	for _, route := range out.Http {
		for _, r := range route.Route {
			if d := r.GetDestination(); d != nil {
				d.Host = Qualify(d.Host, namespace)
			}
		}
	}
	return out
}
