package inject

import "encoding/json"

// leftOut returns, as annotations, the inbound traffic that pod-init leaves alone by the injector's own configuration: by those that the
// Pod has itself the agent knows it. Else the agent would take what comes directly for a redirection that is missing.
func (w *wishes) leftOut(given map[string]string) string {
	const traffic = "traffic.sidecar.istio.io/"
	out := map[string]string{}
	for _, one := range []struct{ key, value, none string }{
		{traffic + "includeInboundPorts", w.ports, "*"}, {traffic + "excludeInboundPorts", w.skipPorts, ""},
	} {
		if _, known := given[one.key]; !known && one.value != one.none && w.mode != "NONE" {
			out[one.key] = one.value
		}
	}
	if len(out) == 0 {
		return ""
	}
	text, _ := json.Marshal(out) // texts always encode
	return string(text)
}
