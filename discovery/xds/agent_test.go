package xds

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// An agent's version is what it says. Of those that do not say it only 0.1 is known.
func TestAgent(t *testing.T) {
	for name, test := range map[string]struct {
		metadata map[string]any
		want     model.Agent
	}{
		"of today":              {map[string]any{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_REPORTS": "requests", "PILOTLIGHT_VERSION": "v0.2.0"}, model.Agent{Version: "v0.2.0"}},
		"past its relay":        {map[string]any{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_REPORTS": "requests"}, model.Agent{}},
		"with its own template": {map[string]any{"PILOTLIGHT_SDS": "none", "PILOTLIGHT_REPORTS": "none"}, model.Agent{}},
		"of 0.1":                {map[string]any{"PILOTLIGHT_SDS": "files"}, model.Agent{Version: "v0.1"}},
		"of 0.1, as it may be":  {map[string]any{"PILOTLIGHT_SDS": "none"}, model.Agent{Version: "v0.1"}},
		"Istio's":               {map[string]any{"ISTIO_VERSION": "1.2.3"}, model.Agent{}},
		"that sees a client":    {map[string]any{"PILOTLIGHT_VERSION": "(devel)", "PILOTLIGHT_BYPASSED": "80 ::1"}, model.Agent{Version: "(devel)", Bypassed: "80 ::1"}},
	} {
		metadata, err := structpb.NewStruct(test.metadata)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParseProxy(&corev3.Node{Id: "sidecar~10.0.0.1~app.default~default.svc.cluster.local", Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Agent(); got != test.want {
			t.Errorf("an agent %s: got %+v, want %+v", name, got, test.want)
		}
	}
}
