package ads

import (
	"google.golang.org/grpc"
)

// ours is the handler of the streams of all services.
type ours interface {
	open(w grpc.ServerStream, v variant, only kind) (*stream, error)
}

// services describes the aggregated discovery service, and those of one kind each for clients that want them. They are
// written by hand, since generated ones would decode each request and encode each response separately.
func services() []*grpc.ServiceDesc {
	const prefix = "envoy.service."
	out := []*grpc.ServiceDesc{describeService(prefix+"discovery.v3.AggregatedDiscoveryService", "AggregatedResources", aggregated)}
	for k, name := range [kinds][2]string{
		cds: {"cluster.v3.ClusterDiscoveryService", "Clusters"},
		eds: {"endpoint.v3.EndpointDiscoveryService", "Endpoints"},
		sds: {"secret.v3.SecretDiscoveryService", "Secrets"},
		lds: {"listener.v3.ListenerDiscoveryService", "Listeners"},
		rds: {"route.v3.RouteDiscoveryService", "Routes"},
	} {
		if name[0] != "" { // names have none
			out = append(out, describeService(prefix+name[0], name[1], kind(k)))
		}
	}
	return out
}

func describeService(name, what string, only kind) *grpc.ServiceDesc {
	stream := func(method string, v variant) grpc.StreamDesc {
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
		Streams: []grpc.StreamDesc{stream("Stream", sotw), stream("Delta", delta)},
	}
}
