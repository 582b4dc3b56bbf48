package plane

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
)

// awaited returns what discovery waits for before it is ready; "" if for nothing. synced is whether a mesh was pushed,
// lacks what the webhooks need before they can answer. Discovery waits for webhooks as long as for a source, zero
// patience for ever: proxies need discovery also where a certificate of webhooks cannot be made.
func awaited(synced bool, lacks string, waited, patience time.Duration) string {
	switch {
	case !synced:
		return "the sources have not synced yet"
	case patience > 0 && waited >= patience:
		return ""
	default:
		return lacks
	}
}

// whole reports whether no source is late. If one is missing, references to its objects look wrong, and are not written into the
// statuses of objects.
func whole(sources []discovery.SourceStatus) bool {
	return !slices.ContainsFunc(sources, func(s discovery.SourceStatus) bool { return s.Late })
}

// proxyConfigSources are the sources of MeshConfig and ProxyConfig objects without which no Pod is injected, even if
// proxies are served without them. Not among them are sources that may run in Pods that are injected.
var proxyConfigSources = []string{"meshConfig", "meshConfigMap", "config", "kubernetesConfig"}

// injectable returns why no Pod can be injected yet; nil if Pods can.
func injectable(meshed bool, sources []discovery.SourceStatus) error {
	if !meshed {
		return errors.New("there is no mesh before its sources have synced")
	}
	for _, source := range sources {
		if source.Late && slices.Contains(proxyConfigSources, source.Name) {
			return fmt.Errorf("the source %s has not synced", source.Name)
		}
	}
	return nil
}

// lines returns a line for each source with a fault.
func lines(sources []discovery.SourceStatus) (out []string) {
	for _, s := range sources {
		out = append(out, s.Lines()...)
	}
	return out
}
