package ads

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
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
