package e2e

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3" // known to protojson

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// script is an ADS server that sends what a test says, good or bad: state of the world, two types.
type script struct {
	t       *testing.T
	address string

	mu      sync.Mutex
	version int
	says    map[string][]*anypb.Any // by type URL
	refused map[string]string       // the last refusal of each type, in Envoy's words
	changed chan struct{}           // closed with each change
}

const (
	typeCluster  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeListener = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

func startScript(t *testing.T) *script {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{
		t: t, address: listener.Addr().String(),
		says: map[string][]*anypb.Any{}, refused: map[string]string{}, changed: make(chan struct{}),
	}
	server := grpc.NewServer()
	discoverypb.RegisterAggregatedDiscoveryServiceServer(server, scripted{script: s})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
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

// refusal returns what Envoy last refused of a type, in its words.
func (s *script) refusal(typeURL string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[typeURL]
}

type scripted struct {
	discoverypb.UnimplementedAggregatedDiscoveryServiceServer
	*script
}

func (s scripted) StreamAggregatedResources(stream grpc.BidiStreamingServer[discoverypb.DiscoveryRequest, discoverypb.DiscoveryResponse]) error {
	requests := make(chan *discoverypb.DiscoveryRequest)
	go func() {
		defer close(requests)
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- request:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	var asked []string
	sent := map[string][]*anypb.Any{}
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		for _, typeURL := range asked {
			if err := s.send(stream, typeURL, sent); err != nil {
				return err
			}
		}
		select {
		case request, open := <-requests:
			if !open {
				return nil
			}
			if !slices.Contains(asked, request.TypeUrl) {
				asked = append(asked, request.TypeUrl)
			}
			if refusal := request.GetErrorDetail().GetMessage(); refusal != "" {
				s.mu.Lock()
				s.refused[request.TypeUrl] = refusal
				s.mu.Unlock()
			}
		case <-changed:
		}
	}
}

// send sends what a type says now, unless it was sent before.
func (s scripted) send(stream grpc.BidiStreamingServer[discoverypb.DiscoveryRequest, discoverypb.DiscoveryResponse], typeURL string, sent map[string][]*anypb.Any) error {
	s.mu.Lock()
	resources, says := s.says[typeURL]
	version := strconv.Itoa(s.version)
	s.mu.Unlock()
	last, was := sent[typeURL]
	if !says || was && slices.Equal(last, resources) {
		return nil
	}
	sent[typeURL] = resources
	return stream.Send(&discoverypb.DiscoveryResponse{
		TypeUrl: typeURL, VersionInfo: version, Nonce: version, Resources: resources,
	})
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

// badListener is one that Envoy refuses: it has no filter chains.
func badListener(name, address string) string {
	return fmt.Sprintf(`{"name": %q, "address": %s}`, name, lab.SocketAddress(address))
}
