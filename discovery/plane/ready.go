package plane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// required reports whether there is no mesh before a source is whole: every one, unless it is named as optional, or is
// another cluster. An entry of configSources that can never be read is a fault, and not waited for.
func (c Config) required(source string) bool {
	switch {
	case slices.Contains(c.Optional, source), strings.HasPrefix(source, remote("")):
		return false
	default:
		place, known := strings.CutPrefix(source, "k8s://")
		return !known || place == ""
	}
}

// awaited returns what discovery waits for before it is ready; "" if for nothing. synced is whether a mesh was pushed,
// lacks what webhooks and the authority need before they can answer. Discovery waits for these until a deadline, zero
// patience for ever: proxies need discovery also where a certificate of webhooks cannot be made.
func awaited(synced bool, sources []discovery.SourceStatus, lacks string, waited, patience time.Duration) string {
	switch {
	case !synced:
		return "the sources have not synced yet" + names(sources)
	case patience > 0 && waited >= patience:
		return ""
	default:
		return lacks
	}
}

// names returns the sources that discovery waits for, as the end of a sentence.
func names(sources []discovery.SourceStatus) string {
	var out []string
	for _, s := range sources {
		switch {
		case s.Awaited && len(s.Unread) > 0:
			out = append(out, s.Name+" cannot be read in part")
		case s.Awaited && s.State == discovery.SourceFailed:
			out = append(out, s.Name+" failed")
		case s.Awaited:
			out = append(out, s.Name)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ") + " (/ready?verbose on its host has the reasons)"
}

// whole reports whether no source is late, cannot be read in part, or is served of before the start. If something is
// missing, references to its objects look wrong, and are not written into the statuses of objects.
func whole(sources []discovery.SourceStatus) bool {
	return !slices.ContainsFunc(sources, func(s discovery.SourceStatus) bool { return s.Late || len(s.Unread) > 0 || !s.RememberedAt.IsZero() })
}

// proxyConfigSources are the sources of MeshConfig and ProxyConfig objects without which no Pod is injected, even if
// proxies are served without them. Not among them are sources that may run in Pods that are injected.
var proxyConfigSources = []string{"meshConfig", "meshConfigMap", "config", objectsName}

// injectable returns why no Pod can be injected yet; nil if Pods can.
func injectable(meshed bool, sources []discovery.SourceStatus) error {
	if !meshed {
		return errors.New("there is no mesh before its sources have synced")
	}
	for _, source := range sources {
		if source.Late && source.RememberedAt.IsZero() && slices.Contains(proxyConfigSources, source.Name) {
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

// Layers returns the places of a mesh that set the ProxyConfig of a workload, for injection.
func Layers(mesh *model.Mesh, namespace string, labels map[string]string) (out []inject.Layer, err error) {
	for _, l := range mesh.ProxyConfigLayers(namespace, labels) {
		fields, err := config.ProxyConfigFields(l)
		if err != nil {
			return nil, err
		}
		out = append(out, inject.Layer{From: l.From, Over: l.Selected, Config: fields})
	}
	return out, nil
}
