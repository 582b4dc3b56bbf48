package ads

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// The services of one kind each give the same answers as the aggregated one, also without a type_url; they ignore other
// kinds.
func TestServicesOfOneKind(t *testing.T) {
	for k, path := range map[content.Kind]string{
		content.CDS: "/envoy.service.cluster.v3.ClusterDiscoveryService/%sClusters",
		content.EDS: "/envoy.service.endpoint.v3.EndpointDiscoveryService/%sEndpoints",
		content.LDS: "/envoy.service.listener.v3.ListenerDiscoveryService/%sListeners",
		content.RDS: "/envoy.service.route.v3.RouteDiscoveryService/%sRoutes",
	} {
		t.Run(k.String(), func(t *testing.T) {
			both(t, base, func(r *rig, v content.Variant) {
				var names []string
				for _, resource := range base[k].All() {
					names = append(names, resource.Name)
				}
				want := k.String() + ":" + strings.Join(names, ",")
				c := r.connectTo(r.client, v, strings.Replace(path, "%s", [content.Variants]string{"Stream", "Delta"}[v], 1))
				c.want("its kind", c.subscribe(k, names...), want)
				c.want("ACK", c.ack(k), "")
				c.want("another", c.subscribe((k+1)%content.Kinds, names...), "")
				r.push(state("a=2 b=2", "a=2 b=2", "l=2", "r=2"))
				c.want("a change", c.got(), want)

				bare := r.connectTo(r.client, v, strings.Replace(path, "%s", [content.Variants]string{"Stream", "Delta"}[v], 1))
				bare.want("without a type_url", bare.withoutType(names), want)
			})
		})
	}
}
