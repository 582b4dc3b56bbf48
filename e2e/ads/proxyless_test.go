package ads

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/xds"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A server of gRPC that asks discovery for its listener serves, and a client reaches it by a short name.
func TestProxylessServerAndShortName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &envoyLab{Mesh: lab.Mesh{Lab: lab.New(dir), T: t, Config: filepath.Join(dir, "config")}}
	l.Check(os.MkdirAll(l.Config, 0o755))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	l.Check(err)
	l.Write("mesh.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: echo}
spec:
  hosts: [echo.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 50051, name: grpc, protocol: GRPC}]
  endpoints: [{address: 127.0.0.1, ports: {grpc: %d}}]
`, listener.Addr().(*net.TCPAddr).Port))
	l.Discovery, err = l.Lab.Discovery(l.Config, "--shutdownDuration", "2s")
	l.Check(err)
	t.Cleanup(func() { l.Discovery.Stop(lab.StopLimit) })
	bootstrap := fmt.Sprintf(`{
		"xds_servers": [{"server_uri": %q, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}],
		"node": {"id": "sidecar~127.0.0.1~echo.default~default.svc.cluster.local", "metadata": {"GENERATOR": "grpc"}},
		"server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%%s"
	}`, l.Discovery.GRPC)

	server, err := xds.NewGRPCServer(xds.BootstrapContentsForTesting([]byte(bootstrap)))
	l.Check(err)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	defer server.Stop()
	resolver, err := xds.NewXDSResolverWithConfigForTesting([]byte(bootstrap))
	l.Check(err)
	client, err := grpc.NewClient("xds:///echo:50051", grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	l.Check(err)
	defer client.Close()
	l.Check(lab.Eventually(30*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := healthpb.NewHealthClient(client).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}))
	if log := l.Discovery.Log(); strings.Contains(log, "response refused") {
		t.Errorf("gRPC refused what discovery sent:\n%s", log)
	}
}
