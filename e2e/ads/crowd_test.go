package ads

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// With 256 descriptors, and 250 connections to each port that have said hello and no more, a new proxy is configured at once,
// probes are answered, and a proxy that was there keeps its stream.
func TestCrowds(t *testing.T) {
	t.Parallel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir, config := t.TempDir(), t.TempDir()
	var ports []string
	for range 3 {
		ports = append(ports, fmt.Sprintf("127.0.0.1:%d", lab.Port(t)))
	}
	d, err := lab.Start(lab.Spec{Name: "discovery", Dir: dir, Argv: []string{
		"sh", "-c", `ulimit -n 256; exec "$@"`, "-", lab.Program("discovery"), "serve", "--configDir", config,
		"--grpcAddr", ports[0], "--httpAddr", ports[1], "--monitoringAddr", ports[2],
	}})
	check(err)
	t.Cleanup(func() { d.Stop(lab.StopLimit) })
	check(d.AwaitHTTP(lab.StopLimit, "http://"+ports[1]+"/ready"))

	// ask opens a stream of its own, and is answered.
	ask := func(name string) discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient {
		t.Helper()
		client, err := grpc.NewClient("passthrough:///"+ports[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
		check(err)
		t.Cleanup(func() { client.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		late := time.AfterFunc(lab.StopLimit, cancel) // of the answer, not of the stream
		defer late.Stop()
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(client).StreamAggregatedResources(ctx)
		check(err)
		request := &discoveryv3.DiscoveryRequest{
			Node:    &corev3.Node{Id: "sidecar~10.0.0.1~" + name + ".default~default.svc.cluster.local"},
			TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		}
		check(s.Send(request))
		_, err = s.Recv()
		check(err)
		return s
	}
	first := ask("first")
	lost := make(chan error, 1)
	go func() { _, err := first.Recv(); lost <- err }()
	began := time.Now()
	for range 250 {
		for _, address := range ports {
			conn, err := net.DialTimeout("tcp", address, lab.StopLimit)
			check(err)
			t.Cleanup(func() { conn.Close() })
			if address == ports[0] {
				_, _ = io.WriteString(conn, http2.ClientPreface) // its bound may close it at once
				_ = http2.NewFramer(conn, conn).WriteSettings()
			}
		}
	}
	for i := range 5 {
		ask(fmt.Sprint("late", i))
		for _, page := range []string{ports[1] + "/ready", ports[2] + "/metrics"} {
			_, err := lab.Get("http://" + page)
			check(err)
		}
	}
	select {
	case err := <-lost:
		t.Errorf("the first proxy lost its stream: %v", err)
	default:
	}
	t.Logf("750 connections, then 5 proxies and 10 pages: %s", time.Since(began))
}
