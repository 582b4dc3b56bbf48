package relay

import (
	"context"
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// BenchmarkChange measures a change of one cluster's endpoints and its ACK, there and back: from discovery to its client, with the relay
// between them and without it.
func BenchmarkChange(t *testing.B) {
	b := start(t)
	b.answer(func(s stub) error {
		for i := 0; ; i++ {
			if _, err := s.Recv(); err != nil {
				return err
			}
			value := &anypb.Any{TypeUrl: lastgood.TypeEndpoints, Value: make([]byte, 1000)}
			r := &deltaReply{TypeUrl: lastgood.TypeEndpoints, Nonce: fmt.Sprint(i), Resources: []*discoveryv3.Resource{{Name: "c", Version: fmt.Sprint(i), Resource: value}}}
			if err := s.Send(r); err != nil {
				return err
			}
		}
	})
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	b.must(err)
	defer conn.Close()
	for name, envoys := range map[string]discoveryv3.AggregatedDiscoveryServiceClient{
		"direct": discoveryv3.NewAggregatedDiscoveryServiceClient(conn), "relayed": b.envoys,
	} {
		t.Run(name, func(t *testing.B) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := envoys.DeltaAggregatedResources(ctx)
			b.must(err)
			b.ask(s, lastgood.TypeEndpoints, nil)
			for t.Loop() {
				b.get(s)
			}
		})
	}
}
