package xds

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
)

var (
	edits = flag.Int("edits", 300, "how many edited scenarios the real Envoy is shown")
	seed  = flag.Uint64("seed", 1, "of the edits")
)

// The real Envoy accepts every resource that validation accepts: hundreds of scenarios are edited, and Envoy validates
// each new resource, many at a time.
func TestEnvoyTakesWhatValidationTakes(t *testing.T) {
	all := drafts(t)
	random := rand.New(rand.NewPCG(*seed, 0))
	b := batch{seen: map[string]bool{}, clusters: map[string]bool{}, dir: certificates(t)}
	for i := range *edits {
		program := make([]byte, 4*(1+random.IntN(4)))
		for j := 0; j < len(program); j += 4 {
			binary.BigEndian.PutUint32(program[j:], random.Uint32())
		}
		d := edited(all, uint8(i), uint8(random.Uint32()), program)
		name, view := viewNumber(i / len(all))
		b.add(t, Build(meshOf(t, d.decode()), view), fmt.Sprintf("as %s:\n%s", name, d))
		if len(b.items) > 600 {
			b.validate(t)
		}
	}
	b.validate(t)
	t.Logf("%d resources of %d scenarios", len(b.seen), *edits)
}

// batch holds the resources of one run of Envoy.
type batch struct {
	seen     map[string]bool // validated already, by content
	clusters map[string]bool // of all scenarios, by name
	items    []item
	dir      string // of certificates
	refused  int
}

// maxRefused is the number of faults after which the search ends: each costs a dozen runs of Envoy.
const maxRefused = 5

// item is a resource: a cluster, or a listener. Routes are validated in a listener of their own.
type item struct {
	resource proto.Message
	origin   string
}

func (b *batch) add(t *testing.T, r *Resources, origin string) {
	t.Helper()
	for _, c := range static(t, r).StaticResources.Clusters {
		if c.Name != adsCluster && c.Name != agentCluster {
			b.clusters[c.Name] = true
			b.put(t, c, origin)
		}
	}
	for _, l := range r.Listeners {
		b.put(t, proto.CloneOf(l), origin)
	}
	for _, c := range r.Routes {
		b.put(t, routesAlone(c), origin)
	}
}

func (b *batch) put(t *testing.T, m proto.Message, origin string) {
	t.Helper()
	replaceFiles(t, m.ProtoReflect(), b.dir)
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatalf("%v: %s", err, origin)
	}
	if key := fmt.Sprintf("%T %s", m, content); !b.seen[key] {
		b.seen[key] = true
		b.items = append(b.items, item{m, origin})
	}
}

// routesAlone returns a listener with routes and nothing else.
func routesAlone(c *routev3.RouteConfiguration) *listenerv3.Listener {
	manager := observed{}.newHCM("routes", corev3.TrafficDirection_OUTBOUND)
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: c}
	return directListener("routes", "127.0.0.1", 1, corev3.TrafficDirection_OUTBOUND, networkFilter(hcmFilter, manager))
}

// validate validates all items and removes them. If Envoy rejects some, the items are split in halves until the
// rejected ones are found.
func (b *batch) validate(t *testing.T) {
	t.Helper()
	b.search(t, b.items)
	b.items = nil
}

func (b *batch) search(t *testing.T, items []item) {
	t.Helper()
	refusal := b.show(t, items)
	switch {
	case refusal == "":
	case len(items) == 1 && b.refused == maxRefused:
		t.Fatalf("Envoy refuses %d resources, and more are not looked for", maxRefused)
	case len(items) == 1:
		b.refused++
		text, _ := protojson.Marshal(items[0].resource) // it was encoded before
		t.Errorf("Envoy refuses %s\nbecause %s\nof a configuration that validation accepts, %s", text, refusal, items[0].origin)
	default:
		b.search(t, items[:len(items)/2])
		b.search(t, items[len(items)/2:])
	}
}

// show returns Envoy's error for items, "" if it accepts them.
func (b *batch) show(t *testing.T, items []item) string {
	t.Helper()
	if len(items) == 0 {
		return ""
	}
	out := bootstrap()
	clusters := map[string]bool{adsCluster: true, agentCluster: true}
	for i, item := range items {
		switch m := item.resource.(type) {
		case *clusterv3.Cluster:
			m = proto.CloneOf(m)
			if clusters[m.Name] {
				m.Name = fmt.Sprintf("%s again %d", m.Name, i)
			}
			clusters[m.Name] = true
			out.StaticResources.Clusters = append(out.StaticResources.Clusters, m)
		case *listenerv3.Listener:
			m = proto.CloneOf(m)
			m.Name = fmt.Sprintf("%s again %d", m.Name, i)
			m.Address = own(t, m.Address, i)
			out.StaticResources.Listeners = append(out.StaticResources.Listeners, m)
		}
	}
	for name := range b.clusters { // access loggers and tracers need their clusters
		if !clusters[name] {
			out.StaticResources.Clusters = append(out.StaticResources.Clusters, http2Cluster(name))
		}
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return refusalOf(t, text)
}

// own gives each listener an address of its own. Envoy opens none in validate mode, but requires that they differ.
func own(t *testing.T, a *corev3.Address, i int) *corev3.Address {
	t.Helper()
	if path := a.GetPipe().GetPath(); path != "" {
		if len(path) > 107 {
			t.Errorf("the path %q is too long for a socket", path)
		}
		return pipe(fmt.Sprintf("/socket/%d", i))
	}
	s := a.GetSocketAddress()
	ip, err := netip.ParseAddr(s.GetAddress())
	if err != nil || s.GetPortValue() > 65535 {
		t.Errorf("nobody can listen at %v", a)
	}
	if ip.Is6() {
		return socket(fmt.Sprintf("fd00::%x", i+1), s.GetPortValue())
	}
	return socket(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), s.GetPortValue())
}

// refusalOf returns the error of the real Envoy for a bootstrap, "" if it accepts it.
func refusalOf(t *testing.T, bootstrap []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), envoyBinary(t), "--mode", "validate", "--log-level", "error", "-c", file).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return ""
}

// bootstrap returns one without resources, with the clusters of ADS and of the agent.
func bootstrap() *bootstrapv3.Bootstrap {
	return &bootstrapv3.Bootstrap{
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{http2Cluster(adsCluster), http2Cluster(agentCluster)}},
		Node:            &corev3.Node{Id: "test", Cluster: "test"}, // Envoy requires a node to fetch secrets
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: adsCluster},
			}}},
		}},
	}
}
