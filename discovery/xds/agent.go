package xds

import (
	"cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// silentRelease is the release whose agents said no version yet. PILOTLIGHT_SDS distinguishes them from Istio's.
// Later ones say no version either where Envoy connects without their relay, but have PILOTLIGHT_REPORTS.
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
