package adstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// NodeID is the ID of Node.
const NodeID = "sidecar~127.0.0.9~app.default~default.svc.cluster.local"

// Mesh returns a mesh of HTTP services on port 80, NAME.com each, with one endpoint at 10.0.0.LASTBYTE.
func Mesh(lastByte int, names ...string) *model.Mesh {
	var services []*model.Service
	for _, name := range names {
		services = append(services, &model.Service{
			Right: model.RightFull, Host: name + ".com", Resolution: model.ResolutionStatic,
			Ports:     []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
			Endpoints: []model.Endpoint{{Address: fmt.Sprintf("10.0.0.%d", lastByte)}},
		})
	}
	return model.New(slices.Values([]model.Group{{Services: services}}))
}

// Cluster returns the name of the cluster of a service of Mesh.
func Cluster(name string) string { return "outbound|80||" + name + ".com" }

// Node returns the node of a sidecar that captures nothing, at 127.0.0.9 in namespace default.
func Node() *corev3.Node {
	return &corev3.Node{Id: NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"INTERCEPTION_MODE": structpb.NewStringValue("NONE"),
		"HTTP_PROXY_PORT":   structpb.NewStringValue("15080"),
	}}}
}

// View returns the view of such a node with another address.
func View(t *testing.T, ip string) xds.View {
	t.Helper()
	n := Node()
	n.Id = strings.Replace(n.Id, "127.0.0.9", ip, 1)
	proxy, err := xds.ParseProxy(n)
	if err != nil {
		t.Fatal(err)
	}
	return xds.ViewOf(proxy)
}
