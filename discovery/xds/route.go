package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	previousHosts = "envoy.retry_host_predicates.previous_hosts"
	// retryOn never repeats a request that the server may have worked on: it was not connected, or it said so.
	retryOn         = "connect-failure,refused-stream,unavailable,cancelled"
	retries         = 2
	retryHostsTried = 5
)

// httpRoutes returns the routes to one port of a service: its VirtualService's, one per match, in their order, else
// one to the whole service.
func httpRoutes(m *model.Mesh, s *model.Service, port uint32) []*routev3.Route {
	rule := m.VirtualService(s.Host)
	if rule == nil || len(rule.Spec.Http) == 0 {
		r := toCluster("default", outboundName(port, "", s.Host))
		r.GetRoute().RetryPolicy = defaultRetry()
		return []*routev3.Route{r}
	}
	var out []*routev3.Route
	for _, http := range rule.Spec.Http {
		matches := http.Match
		if len(matches) == 0 {
			matches = []*networking.HTTPMatchRequest{nil}
		}
		for _, match := range matches {
			r := &routev3.Route{Name: http.Name, Match: routeMatch(match)}
			setAction(r, m, http, port)
			out = append(out, r)
		}
	}
	return out
}

// setAction splits a route's traffic by weight. With nobody to send it to, the route answers 503 itself.
func setAction(r *routev3.Route, m *model.Mesh, http *networking.HTTPRoute, port uint32) {
	destinations := weighted(http.Route)
	if len(destinations) == 0 {
		r.Action = directResponse(503, "")
		return
	}
	action := &routev3.RouteAction{Timeout: http.Timeout, RetryPolicy: defaultRetry()}
	if action.Timeout == nil {
		action.Timeout = durationpb.New(0) // none; unset would mean Envoy's 15 seconds
	}
	if len(destinations) == 1 {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: clusterOf(m, destinations[0].GetDestination(), port)}
	} else {
		action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: split(m, destinations, port)}
	}
	r.Action = &routev3.Route_Route{Route: action}
}

// weighted drops the destinations that get nothing. A single destination needs no weight.
func weighted(in []*networking.HTTPRouteDestination) []*networking.HTTPRouteDestination {
	if len(in) == 1 {
		return in
	}
	var out []*networking.HTTPRouteDestination
	for _, d := range in {
		if d.GetWeight() > 0 {
			out = append(out, d)
		}
	}
	return out
}

func split(m *model.Mesh, destinations []*networking.HTTPRouteDestination, port uint32) *routev3.WeightedCluster {
	out := &routev3.WeightedCluster{}
	for _, d := range destinations {
		out.Clusters = append(out.Clusters, &routev3.WeightedCluster_ClusterWeight{
			Name:   clusterOf(m, d.GetDestination(), port),
			Weight: wrapperspb.UInt32(uint32(d.Weight)),
		})
	}
	return out
}

// clusterOf names a destination's cluster. Where no port is given it is the destination's only one, else the one that
// the request was sent to. The cluster may not exist, as with a missing subset: Envoy then answers 503.
func clusterOf(m *model.Mesh, d *networking.Destination, port uint32) string {
	if n := d.GetPort().GetNumber(); n != 0 {
		port = n
	} else if s := m.Service(d.GetHost()); s != nil && len(s.Ports) == 1 {
		port = s.Ports[0].Number
	}
	return outboundName(port, d.GetSubset(), d.GetHost())
}

func toCluster(name, cluster string) *routev3.Route {
	return &routev3.Route{
		Name:  name,
		Match: routeMatch(nil),
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
			Timeout:          durationpb.New(0),
		}},
	}
}

func defaultRetry() *routev3.RetryPolicy {
	return &routev3.RetryPolicy{
		RetryOn:    retryOn,
		NumRetries: wrapperspb.UInt32(retries),
		RetryHostPredicate: []*routev3.RetryPolicy_RetryHostPredicate{{
			Name: previousHosts,
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: pack(&previoushostsv3.PreviousHostsPredicate{}),
			},
		}},
		HostSelectionRetryMaxAttempts: retryHostsTried,
	}
}

func directResponse(status uint32, body string) *routev3.Route_DirectResponse {
	out := &routev3.DirectResponseAction{Status: status}
	if body != "" {
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body}}
	}
	return &routev3.Route_DirectResponse{DirectResponse: out}
}
