package xds

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Build returns the whole configuration of the proxies with view v.
func Build(m *model.Mesh, v View) *Resources {
	out, in := BuildOutbound(m, v.Outbound), BuildInbound(m, v.Inbound)
	all := &Resources{
		Clusters:  slices.Concat(out.Clusters, in.Clusters),
		Endpoints: slices.Concat(out.Endpoints, in.Endpoints),
		Listeners: slices.Concat(out.Listeners, in.Listeners),
		Routes:    slices.Concat(out.Routes, in.Routes),
	}
	return all.normalize()
}

// BuildOutbound builds from nothing.
func BuildOutbound(m *model.Mesh, v Outbound) *Resources { return RebuildOutbound(nil, m, v) }

// RebuildOutbound builds without a sibling.
func RebuildOutbound(last *Resources, m *model.Mesh, v Outbound) *Resources {
	return RebuildWithSibling(last, nil, m, v)
}

func socketOf(e *endpointv3.LbEndpoint) *corev3.SocketAddress {
	return e.GetEndpoint().GetAddress().GetSocketAddress()
}

// A sketch is equal to the whole build in each scenario, cluster by cluster; and it makes none that is not asked for.
func TestSketchIsTheBuild(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	made := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		proxy, settings := scenarioProxy(t, strings.TrimPrefix(first, "# "))
		objects, _ := config.Decode(file, data)
		m := model.New(slices.Values([]model.Group{{Objects: append(objects, settings...)}}))
		v := ViewOf(proxy).Outbound
		whole, s := BuildOutbound(m, v), SketchOf(m, v)
		if !v.Proxyless && !whole.passes && len(s.Clusters) > 2 {
			t.Errorf("%s: the sketch has %d clusters before one is asked for", file, len(s.Clusters))
		}
		for _, want := range whole.Clusters {
			wanted, endpoints := whole.Cluster(want.Name)
			c, e := s.Cluster(want.Name)
			if made++; wanted != want || !proto.Equal(c, want) || !proto.Equal(e, endpoints) {
				t.Errorf("%s: cluster %s is %v with %v, want %v with %v", file, want.Name, c, e, want, endpoints)
			}
		}
		if c, e := s.Cluster("outbound|1||none.test"); c != nil || e != nil {
			t.Errorf("%s: there is a cluster of no service: %v", file, c)
		}
		same := func(what string, equal bool) {
			if !equal {
				t.Errorf("%s: the sketch has other %s", file, what)
			}
		}
		same("listeners", equalAll(s.Listeners, whole.Listeners))
		same("routes", equalAll(s.Routes, whole.Routes))
	}
	if made < 200 {
		t.Errorf("only %d clusters were seen", made)
	}
}

func equalAll[T proto.Message](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return proto.Equal(x, y) })
}
