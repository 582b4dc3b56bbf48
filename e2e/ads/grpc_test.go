package ads

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/xds"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A program's own gRPC resolves xds:///host:port through discovery, balances over the endpoints, and follows a change.
// It refuses what is only nearly right, so what it accepts is an oracle.
func TestProxylessGRPC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &envoyLab{Mesh: lab.Mesh{Lab: lab.New(dir), T: t, Config: filepath.Join(dir, "config")}}
	l.Check(os.MkdirAll(l.Config, 0o755))
	servers := []string{lab.HealthServer(t), lab.HealthServer(t), lab.HealthServer(t)}
	l.Write("mesh.yaml", grpcEntry(servers[0], servers[1]))
	var err error
	l.Discovery, err = l.Lab.Discovery(l.Config, "--shutdownDuration", "2s")
	l.Check(err)
	t.Cleanup(func() { l.Discovery.Stop(lab.StopLimit) })

	bootstrap := fmt.Sprintf(`{
		"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
		"node": {"id": "sidecar~127.0.0.1~grpc.default~default.svc.cluster.local", "metadata": {"GENERATOR": "grpc"}}
	}`, l.Discovery.GRPC)
	resolver, err := xds.NewXDSResolverWithConfigForTesting([]byte(bootstrap))
	l.Check(err)
	client, err := grpc.NewClient("xds:///"+echoHost+":80", grpc.WithResolvers(resolver),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	l.Check(err)
	defer client.Close()

	l.Check(lab.Eventually(30*time.Second, func() error { return answeredBy(client, servers[0], servers[1]) }))
	l.Write("mesh.yaml", grpcEntry(servers[2]))
	l.Check(lab.Eventually(30*time.Second, func() error { return answeredBy(client, servers[2]) }))
	for _, c := range l.clients(1) {
		for _, k := range c.Types {
			if k.Nack != nil {
				t.Errorf("%s was refused: %s", k.Name, k.Nack.Text)
			}
			if k.State != protocol.StateSynced || k.Wildcard || k.Subscribed != 1 {
				t.Errorf("%s: %+v, want the one name that is needed", k.Name, k)
			}
		}
	}
}

// answeredBy makes calls until it knows that these servers answer, and no others.
func answeredBy(client *grpc.ClientConn, servers ...string) error {
	seen := map[string]int{}
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		var from peer.Peer
		_, err := healthpb.NewHealthClient(client).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&from))
		cancel()
		if err != nil {
			return err
		}
		seen[from.Addr.String()]++
	}
	if len(seen) != len(servers) {
		return fmt.Errorf("answered by %v, want %v", seen, servers)
	}
	for _, s := range servers {
		if seen[s] == 0 {
			return fmt.Errorf("answered by %v, want %v", seen, servers)
		}
	}
	return nil
}

func grpcEntry(servers ...string) string {
	var endpoints []string
	for _, s := range servers {
		host, port, _ := strings.Cut(s, ":")
		endpoints = append(endpoints, fmt.Sprintf("{address: %s, ports: {grpc: %s}}", host, port))
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: echo, namespace: default}
spec:
  hosts: [%s]
  ports: [{number: 80, name: grpc, protocol: GRPC}]
  resolution: STATIC
  endpoints: [%s]
`, echoHost, strings.Join(endpoints, ", "))
}
