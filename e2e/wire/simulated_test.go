//go:build wire

package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// simulated is a mesh of Istio's simulation, and a proxy of it (see simulation/core.go.txt).
type simulated struct {
	Files    map[string]string `json:"files"` // of configDir
	Mesh     json.RawMessage   `json:"mesh"`  // MeshConfig
	ID       string            `json:"id"`    // of the node
	Metadata json.RawMessage   `json:"metadata"`
}

// configured is what the proxy is served, encoded.
type configured struct {
	Listeners, Clusters, Routes [][]byte
	Said                        string // warnings of the control plane
}

// simulate returns the URL of a server that serves each mesh that it is sent by a control plane of its own.
func simulate(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var s simulated
		err := json.NewDecoder(r.Body).Decode(&s)
		var c configured
		if err == nil {
			c, err = s.serve(r.Context(), lab.Port(t))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err := json.NewEncoder(w).Encode(c); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// serve runs a control plane with the mesh until it has served the proxy.
func (s simulated) serve(ctx context.Context, port int) (c configured, err error) {
	dir, err := os.MkdirTemp("", "simulated-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(dir)
	setup, err := s.setup(dir, port)
	if err != nil {
		return c, err
	}
	var said bytes.Buffer // read once the control plane has ended
	setup.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := plane.New(setup)
	if err != nil {
		return c, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		stop()
		if failed := <-ended; err == nil {
			err = failed
		}
		c.Said = said.String()
	}()
	connection, err := grpc.NewClient(setup.Addresses.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return c, err
	}
	defer connection.Close()
	node, err := s.node()
	if err != nil {
		return c, err
	}
	err = lab.Eventually(30*time.Second, func() (err error) { // until the mesh is there
		c, err = ask(ctx, connection, node)
		return err
	})
	return c, err
}

// setup writes the files of the mesh into dir, and returns the setup of a control plane that serves them.
func (s simulated) setup(dir string, port int) (plane.Config, error) {
	c := plane.Config{
		Domain: model.DefaultDomain, ConfigDir: filepath.Join(dir, "config"),
		Ingress: plane.Ingress{
			Class: "istio", Selector: map[string]string{"istio": "ingressgateway"},
			Identity: plane.Name{Namespace: "istio-system", Name: "ingressgateway"}, Ports: plane.Ports{HTTP: 80, HTTPS: 443},
		},
		Addresses: plane.Addresses{GRPC: fmt.Sprintf("127.0.0.1:%d", port), HTTP: "127.0.0.1:0"},
		Limits:    ads.DefaultLimits(),
		Patience:  discovery.Patience{Sync: 10 * time.Second},
	}
	files := map[string]string{}
	for name, text := range s.Files {
		files[filepath.Join("config", name)] = text
	}
	if len(s.Mesh) > 0 {
		files["mesh.yaml"] = string(s.Mesh)
		c.MeshConfig = filepath.Join(dir, "mesh.yaml")
	}
	if err := os.Mkdir(c.ConfigDir, 0o755); err != nil {
		return c, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (s simulated) node() (*corev3.Node, error) {
	metadata := &structpb.Struct{}
	if err := protojson.Unmarshal(s.Metadata, metadata); err != nil {
		return nil, fmt.Errorf("metadata %s: %w", s.Metadata, err)
	}
	metadata.Fields["PILOTLIGHT_SDS"] = structpb.NewStringValue("files") // the proxy has our agent, with a certificate
	metadata.Fields["PILOTLIGHT_CERTIFICATE"] = structpb.NewStringValue("true")
	return &corev3.Node{Id: s.ID, Metadata: metadata}, nil
}

// ask asks for everything on one stream, as Envoy does.
func ask(ctx context.Context, connection *grpc.ClientConn, node *corev3.Node) (c configured, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx)
	if err != nil {
		return c, err
	}
	get := func(kind string, names ...string) ([]*anypb.Any, error) {
		url := "type.googleapis.com/envoy.config." + kind
		if err := stream.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: url, ResourceNames: names}); err != nil {
			return nil, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if answer.TypeUrl != url {
			return nil, fmt.Errorf("asked for %s, got %s", url, answer.TypeUrl)
		}
		return answer.Resources, stream.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: url, ResourceNames: names, VersionInfo: answer.VersionInfo, ResponseNonce: answer.Nonce,
		})
	}
	clusters, err := get("cluster.v3.Cluster")
	if err != nil {
		return c, err
	}
	listeners, err := get("listener.v3.Listener")
	if err != nil {
		return c, err
	}
	var routes []*anypb.Any
	names, err := routeNames(listeners)
	if err == nil && len(names) > 0 {
		routes, err = get("route.v3.RouteConfiguration", names...)
	}
	return configured{Clusters: encoded(clusters), Listeners: encoded(listeners), Routes: encoded(routes)}, err
}

// routeNames returns the names of the routes that listeners ask for.
func routeNames(listeners []*anypb.Any) (names []string, err error) {
	for _, r := range listeners {
		var l listenerv3.Listener
		if err := r.UnmarshalTo(&l); err != nil {
			return nil, err
		}
		for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
			for _, f := range chain.GetFilters() {
				var manager hcmv3.HttpConnectionManager
				if f.GetTypedConfig().MessageIs(&manager) {
					if err := f.GetTypedConfig().UnmarshalTo(&manager); err != nil {
						return nil, err
					}
					names = append(names, manager.GetRds().GetRouteConfigName())
				}
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), nil
}

func encoded(resources []*anypb.Any) (out [][]byte) {
	for _, r := range resources {
		out = append(out, r.Value)
	}
	return out
}
