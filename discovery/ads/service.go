package ads

import (
	"google.golang.org/grpc"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// ours is the handler of the streams of all services.
type ours interface {
	open(w grpc.ServerStream, v content.Variant, only content.Kind) (*stream, error)
}

// services describes the aggregated discovery service, and those of one kind each for clients that want them. They are
// written by hand, since generated ones would decode each request and encode each response separately.
func services() []*grpc.ServiceDesc {
	const prefix = "envoy.service."
	out := []*grpc.ServiceDesc{describeService(prefix+"discovery.v3.AggregatedDiscoveryService", "AggregatedResources", aggregated)}
	for k, name := range [content.Kinds][2]string{
		content.CDS: {"cluster.v3.ClusterDiscoveryService", "Clusters"},
		content.EDS: {"endpoint.v3.EndpointDiscoveryService", "Endpoints"},
		content.SDS: {"secret.v3.SecretDiscoveryService", "Secrets"},
		content.LDS: {"listener.v3.ListenerDiscoveryService", "Listeners"},
		content.RDS: {"route.v3.RouteDiscoveryService", "Routes"},
	} {
		if name[0] != "" { // names have none
			out = append(out, describeService(prefix+name[0], name[1], content.Kind(k)))
		}
	}
	return out
}

func describeService(name, what string, only content.Kind) *grpc.ServiceDesc {
	stream := func(method string, v content.Variant) grpc.StreamDesc {
		return grpc.StreamDesc{
			StreamName: method + what, ServerStreams: true, ClientStreams: true,
			Handler: func(server any, w grpc.ServerStream) error {
				st, err := server.(ours).open(w, v, only)
				if err != nil {
					return err
				}
				return st.run() // with no frame between: see run
			},
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: name, HandlerType: (*ours)(nil),
		Streams: []grpc.StreamDesc{stream("Stream", content.SotW), stream("Delta", content.Delta)},
	}
}
