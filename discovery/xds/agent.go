package xds

import (
	"cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// silentRelease is the release whose agents said no version yet. They are told from Istio's by PILOTLIGHT_SDS, and from later ones, whose
// Envoy may connect without their relay and so say no version either, by PILOTLIGHT_REPORTS, which came with the next release.
const silentRelease = "v0.1"

// Agent returns what the proxy's agent says of itself and of its pod.
func (p Proxy) Agent() model.Agent {
	m := p.Metadata
	a := model.Agent{Version: m.Said.Version, Bypassed: m.Said.Bypassed}
	if m.AgentSDS != "" && m.Reports == "" {
		a.Version = cmp.Or(a.Version, silentRelease)
	}
	return a
}
