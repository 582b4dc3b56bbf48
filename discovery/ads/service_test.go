package ads

import (
	"strings"
	"testing"
)

// The services of one kind each give the same answers as the aggregated one, also without a type_url; they ignore other
// kinds.
func TestServicesOfOneKind(t *testing.T) {
	for k, path := range map[kind]string{
		cds: "/envoy.service.cluster.v3.ClusterDiscoveryService/%sClusters",
		eds: "/envoy.service.endpoint.v3.EndpointDiscoveryService/%sEndpoints",
		lds: "/envoy.service.listener.v3.ListenerDiscoveryService/%sListeners",
		rds: "/envoy.service.route.v3.RouteDiscoveryService/%sRoutes",
	} {
		t.Run(k.String(), func(t *testing.T) {
			both(t, base_ads, func(r *rig, v variant) {
				var names []string
				for _, resource := range base_ads[k].all() {
					names = append(names, resource.name)
				}
				want := k.String() + ":" + strings.Join(names, ",")
				c := r.connectTo(r.client, v, strings.Replace(path, "%s", [variants]string{"Stream", "Delta"}[v], 1))
				c.want("its kind", c.subscribe(k, names...), want)
				c.want("ACK", c.ack(k), "")
				c.want("another", c.subscribe((k+1)%kinds, names...), "")
				r.push(state_ads("a=2 b=2", "a=2 b=2", "l=2", "r=2"))
				c.want("a change", c.got(), want)

				bare := r.connectTo(r.client, v, strings.Replace(path, "%s", [variants]string{"Stream", "Delta"}[v], 1))
				bare.want("without a type_url", bare.withoutType(names), want)
			})
		})
	}
}
