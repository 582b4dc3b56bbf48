//go:build long

package ads

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"

	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
)

// mute is an ADS server between Envoy and discovery that passes on everything but the endpoints of clusters whose names
// hold a word: Envoy waits for them for ever.
type mute struct {
	discoverypb.UnimplementedAggregatedDiscoveryServiceServer
	upstream discoverypb.AggregatedDiscoveryServiceClient
	word     string
}

// startMute returns the address of one.
func startMute(t *testing.T, discovery, word string) string {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:"+discovery, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discoverypb.RegisterAggregatedDiscoveryServiceServer(server, mute{upstream: discoverypb.NewAggregatedDiscoveryServiceClient(conn), word: word})
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		conn.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func (m mute) StreamAggregatedResources(down grpc.BidiStreamingServer[discoverypb.DiscoveryRequest, discoverypb.DiscoveryResponse]) error {
	up, err := m.upstream.StreamAggregatedResources(down.Context())
	if err != nil {
		return err
	}
	return pass(down, up, func(r *discoverypb.DiscoveryResponse) {
		if r.TypeUrl == typeEndpoints {
			r.Resources = slices.DeleteFunc(r.Resources, func(a *anypb.Any) bool { return bytes.Contains(a.Value, []byte(m.word)) })
		}
	})
}

func (m mute) DeltaAggregatedResources(down grpc.BidiStreamingServer[discoverypb.DeltaDiscoveryRequest, discoverypb.DeltaDiscoveryResponse]) error {
	up, err := m.upstream.DeltaAggregatedResources(down.Context())
	if err != nil {
		return err
	}
	return pass(down, up, func(r *discoverypb.DeltaDiscoveryResponse) {
		if r.TypeUrl == typeEndpoints {
			r.Resources = slices.DeleteFunc(r.Resources, func(a *discoverypb.Resource) bool { return strings.Contains(a.Name, m.word) })
		}
	})
}

const typeEndpoints = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

// pass carries requests up and responses down until either side ends.
func pass[Q, A any](down grpc.BidiStreamingServer[Q, A], up grpc.BidiStreamingClient[Q, A], silence func(*A)) error {
	go func() { // ends with the stream down
		for {
			request, err := down.Recv()
			if err != nil || up.Send(request) != nil {
				_ = up.CloseSend()
				return
			}
		}
	}()
	for {
		response, err := up.Recv()
		if err != nil {
			return err
		}
		silence(response)
		if err := down.Send(response); err != nil {
			return err
		}
	}
}
