package node

// Keys of what an agent says of itself and of its pod: see Said.
const (
	versionKey  = "PILOTLIGHT_VERSION"
	bypassedKey = "PILOTLIGHT_BYPASSED"
)

// Said is what an agent adds to the node of each stream to discovery that it relays. It is in no bootstrap, which an Envoy keeps for
// life: meanwhile another image of the agent may have taken the Envoy over, and a redirection may have come or gone.
type Said struct {
	Version  string // PILOTLIGHT_VERSION, of the agent: "v0.2.0", "(devel)"
	Bypassed string // PILOTLIGHT_BYPASSED: a port of the program, and a client that reaches it past Envoy: "8080 10.0.0.7"; empty for none that was seen
}

// Map returns the metadata, by key, without what is not said.
func (s Said) Map() map[string]string {
	out := map[string]string{}
	for key, value := range map[string]string{versionKey: s.Version, bypassedKey: s.Bypassed} {
		if value != "" {
			out[key] = value
		}
	}
	return out
}
