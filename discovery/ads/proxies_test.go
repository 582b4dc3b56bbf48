package ads

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// What a node says about itself reaches the notes: its domain, Envoy's version, the capture of DNS; each stream has a number of
// its own.
func TestProxiesHaveWhatTheirNodesSay(t *testing.T) {
	overWire(t, base, func(r *rig) {
		for range 2 {
			c := r.connect(content.Delta)
			c.node.Id = "sidecar~127.0.0.9~app.default~away.svc.cluster.local"
			c.node.UserAgentName = "envoy"
			c.node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{
				UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 39}},
			}
			c.node.Metadata.Fields["NAMESPACE"] = structpb.NewStringValue("default")
			c.node.Metadata.Fields["DNS_CAPTURE"] = structpb.NewStringValue("true")
			c.node.Metadata.Fields["DNS_AUTO_ALLOCATE"] = structpb.NewStringValue("no")
			c.subscribe(content.CDS)
		}
		all := r.Proxies()
		if len(all) != 2 || all[0].Stream == all[1].Stream || all[0].Stream == 0 || all[1].Stream == 0 {
			t.Fatalf("the proxies are %+v, want two with numbers", all)
		}
		for _, w := range all {
			if w.Namespace != "default" || w.Domain != "away.svc.cluster.local" || w.Version != "envoy 1.39.0" || !w.Binds ||
				w.DNS != (model.DNS{Capture: model.DNSOn, Auto: model.DNSOff}) {
				t.Errorf("a proxy is %+v", w)
			}
		}
		codes := map[model.Code]int{}
		for _, n := range r.Mesh().Notes(all...) {
			codes[n.Code]++
		}
		if codes[model.WrongNamespace] != 1 || codes[model.OldEnvoy] != 1 || codes[model.DNSCapture] != 1 || len(codes) != 3 {
			t.Errorf("notes are %v, want one of each for the two streams of one proxy", codes)
		}
	})
}

// What an agent says of itself reaches the notes and /debug.
func TestProxiesHaveWhatTheirAgentsSay(t *testing.T) {
	overWire(t, base, func(r *rig) {
		m := model.NewOf(model.Settings{Release: "v0.2.0"}, slices.Values([]model.Group{{}}))
		long := strings.Repeat("9", 5000)
		for name, test := range map[string]struct {
			metadata map[string]string
			agent    string
			want     []model.Code
		}{
			"of today":        {map[string]string{"PILOTLIGHT_VERSION": "v0.2.0"}, "v0.2.0", nil},
			"older":           {map[string]string{"PILOTLIGHT_VERSION": "v0.1.7", "PILOTLIGHT_BYPASSED": "8080 10.0.0.7"}, "v0.1.7", []model.Code{model.NoRedirect, model.OldAgent}},
			"of 0.1":          {map[string]string{"PILOTLIGHT_SDS": "files"}, "v0.1", []model.Code{model.OldAgent}},
			"istios":          {map[string]string{"ISTIO_VERSION": "1.31.1"}, "", nil},
			"hostile":         {map[string]string{"PILOTLIGHT_VERSION": long}, protocol.Clip(long), nil},
			"a developer's":   {map[string]string{"PILOTLIGHT_VERSION": "(devel)"}, "(devel)", nil},
			"without agent":   {nil, "", nil},
			"of the next one": {map[string]string{"PILOTLIGHT_VERSION": "v0.3.0"}, "v0.3.0", nil},
		} {
			c := r.connect(content.Delta)
			c.node.Id = "sidecar~127.0.0.9~" + name + ".default~default.svc.cluster.local"
			delete(c.node.Metadata.Fields, "INTERCEPTION_MODE")
			for key, value := range test.metadata {
				c.node.Metadata.Fields[key] = structpb.NewStringValue(value)
			}
			c.subscribe(content.CDS)
			var codes []model.Code
			for _, n := range m.Notes(r.Proxies()...) {
				if n.Meta.Name == name {
					codes = append(codes, n.Code)
				}
			}
			if slices.Sort(codes); !slices.Equal(codes, test.want) {
				t.Errorf("%s: notes are %v, want %v", name, codes, test.want)
			}
			for _, c := range r.Clients() {
				if c.Name == name && c.Agent != test.agent {
					t.Errorf("%s: its agent is %.100q in /debug, want %.100q", name, c.Agent, test.agent)
				}
			}
		}
		if n := len(r.Clients()); n != 8 {
			t.Errorf("%d proxies are connected, want 8", n)
		}
	})
}
