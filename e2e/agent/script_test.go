package agent

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // known to protojson
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// script is an ADS server that sends what a test says, good or bad, of three types.
type script struct {
	t       *testing.T
	address string

	mu      sync.Mutex
	version int
	says    map[string][]*anypb.Any // by type URL
	changed chan struct{}           // closed with each change
	streams int                     // that were opened
	opened  func(stream int)        // see onStream; nil for nothing
	server  *grpc.Server            // nil while it is away
	done    chan error              // of the server
}

const (
	typeCluster  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeListener = "type.googleapis.com/envoy.config.listener.v3.Listener"
	typeRoutes   = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

func startScript(t *testing.T) *script {
	t.Helper()
	s := &script{t: t, address: "127.0.0.1:0", says: map[string][]*anypb.Any{}, changed: make(chan struct{})}
	s.comeBack()
	t.Cleanup(s.goAway)
	return s
}

// comeBack starts the server, at its address if it has one.
func (s *script) comeBack() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address, s.server, s.done = listener.Addr().String(), grpc.NewServer(), make(chan error, 1)
	discoverypb.RegisterAggregatedDiscoveryServiceServer(s.server, scripted{script: s})
	go func(server *grpc.Server) { s.done <- server.Serve(listener) }(s.server)
}

// goAway ends the server and its streams.
func (s *script) goAway() {
	if s.server == nil {
		return
	}
	s.server.Stop()
	if err := <-s.done; err != nil {
		s.t.Error(err)
	}
	s.server = nil
}

// onStream calls a function for each stream that is opened from now on, with its number from 1, before anything is sent on it.
func (s *script) onStream(do func(stream int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = do
}

// clusters sends these, as JSON, from now on.
func (s *script) clusters(clusters ...string) {
	s.t.Helper()
	s.say(typeCluster, clusters, func() proto.Message { return &clusterpb.Cluster{} })
}

// listeners sends these, as JSON, from now on.
func (s *script) listeners(listeners ...string) {
	s.t.Helper()
	s.say(typeListener, listeners, func() proto.Message { return &listenerpb.Listener{} })
}

// routes sends these, as JSON, from now on.
func (s *script) routes(routes ...string) {
	s.t.Helper()
	s.say(typeRoutes, routes, func() proto.Message { return &routepb.RouteConfiguration{} })
}

func (s *script) say(typeURL string, texts []string, empty func() proto.Message) {
	s.t.Helper()
	resources := []*anypb.Any{}
	for _, text := range texts {
		message := empty()
		if err := protojson.Unmarshal([]byte(text), message); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
		packed, err := anypb.New(message)
		if err != nil {
			s.t.Fatal(err)
		}
		resources = append(resources, packed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.says[typeURL] = resources
	close(s.changed)
	s.changed = make(chan struct{})
}

type scripted struct {
	discoverypb.UnimplementedAggregatedDiscoveryServiceServer
	*script
}

// StreamAggregatedResources sends the state of the world.
func (s scripted) StreamAggregatedResources(stream grpc.BidiStreamingServer[discoverypb.DiscoveryRequest, discoverypb.DiscoveryResponse]) error {
	return s.serve(stream.Context(), func() (string, error) {
		request, err := stream.Recv()
		return request.GetTypeUrl(), err
	}, func(typeURL, version string, _, now []*anypb.Any) error {
		return stream.Send(&discoverypb.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version, Nonce: version, Resources: now})
	})
}

// DeltaAggregatedResources sends what has changed.
func (s scripted) DeltaAggregatedResources(stream grpc.BidiStreamingServer[discoverypb.DeltaDiscoveryRequest, discoverypb.DeltaDiscoveryResponse]) error {
	return s.serve(stream.Context(), func() (string, error) {
		request, err := stream.Recv()
		return request.GetTypeUrl(), err
	}, func(typeURL, version string, before, now []*anypb.Any) error {
		response := &discoverypb.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: version}
		names := map[string]bool{}
		for _, resource := range now {
			names[nameOf(resource)] = true
			if !slices.ContainsFunc(before, func(old *anypb.Any) bool { return proto.Equal(old, resource) }) {
				response.Resources = append(response.Resources, &discoverypb.Resource{Name: nameOf(resource), Version: version, Resource: resource})
			}
		}
		for _, old := range before {
			if !names[nameOf(old)] {
				response.RemovedResources = append(response.RemovedResources, nameOf(old))
			}
		}
		return stream.Send(response)
	})
}

func nameOf(resource *anypb.Any) string {
	message, err := resource.UnmarshalNew()
	if err != nil {
		return ""
	}
	return message.(interface{ GetName() string }).GetName()
}

// serve sends each type that was asked for when it changes.
func (s scripted) serve(ctx context.Context, receive func() (string, error), send func(typeURL, version string, before, now []*anypb.Any) error) error {
	s.mu.Lock()
	s.streams++
	stream, opened := s.streams, s.opened
	s.mu.Unlock()
	if opened != nil {
		opened(stream)
	}
	requests := make(chan string)
	go func() {
		defer close(requests)
		for {
			typeURL, err := receive()
			if err != nil {
				return
			}
			select {
			case requests <- typeURL:
			case <-ctx.Done():
				return
			}
		}
	}()
	var asked []string
	sent := map[string][]*anypb.Any{}
	for {
		s.mu.Lock()
		changed, version, says := s.changed, strconv.Itoa(s.version), maps.Clone(s.says)
		s.mu.Unlock()
		for _, typeURL := range asked {
			now, known := says[typeURL]
			before, was := sent[typeURL]
			if !known || was && slices.Equal(before, now) {
				continue
			}
			if err := send(typeURL, version, before, now); err != nil {
				return err
			}
			sent[typeURL] = now
		}
		select {
		case typeURL, open := <-requests:
			if !open {
				return nil
			}
			if !slices.Contains(asked, typeURL) {
				asked = append(asked, typeURL)
			}
		case <-changed:
		}
	}
}

// staticCluster is a good cluster.
func staticCluster(name, endpoint string) string {
	return fmt.Sprintf(`{"name": %q, "type": "STATIC", "connect_timeout": "1s", "load_assignment": {"cluster_name": %q,
		"endpoints": [{"lb_endpoints": [{"endpoint": {"address": %s}}]}]}}`, name, name, lab.SocketAddress(endpoint))
}

// badCluster is one that Envoy refuses.
func badCluster(name string) string { return fmt.Sprintf(`{"name": %q, "type": "EDS"}`, name) }

// tcpListener is a good listener in front of a cluster.
func tcpListener(name, address, cluster string) string {
	return fmt.Sprintf(`{"name": %q, "traffic_direction": "INBOUND", "address": %s, "filter_chains": [{"filters": [{"name": "tcp",
		"typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
			"stat_prefix": %q, "cluster": %q}}]}]}`, name, lab.SocketAddress(address), name, cluster)
}

// httpListener is a good listener whose routes come by RDS.
func httpListener(name, address, routes string) string {
	return fmt.Sprintf(`{"name": %q, "traffic_direction": "INBOUND", "address": %s, "filter_chains": [{"filters": [{"name": "http",
		"typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix": %q, "rds": {"route_config_name": %q, "config_source": {"ads": {}, "resource_api_version": "V3"}},
			"http_filters": [{"name": "router", "typed_config": {
				"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`,
		name, lab.SocketAddress(address), name, routes)
}

// routesTo is a good route configuration, or with the same domain in several hosts one that Envoy refuses.
func routesTo(name, cluster string, hosts int) string {
	var out []string
	for i := range hosts {
		out = append(out, fmt.Sprintf(`{"name": "h%d", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": %q}}]}`, i, cluster))
	}
	return fmt.Sprintf(`{"name": %q, "virtual_hosts": [%s]}`, name, strings.Join(out, ", "))
}

// badListener is one that Envoy refuses: it has no filter chains.
func badListener(name, address string) string {
	return fmt.Sprintf(`{"name": %q, "address": %s}`, name, lab.SocketAddress(address))
}
