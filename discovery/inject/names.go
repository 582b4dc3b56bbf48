package inject

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// owned are the prefixes of names for which an unknown annotation or label is a warning.
var owned = []string{
	"sidecar.istio.io/", "traffic.sidecar.istio.io/", "proxy.istio.io/", "status.sidecar.istio.io/", "readiness.status.sidecar.istio.io/",
	"inject.istio.io/", "prometheus.istio.io/", "ambient.istio.io/",
}

// labelsWithout are labels of Istio's that have no effect here, with the reason.
var labelsWithout = map[string]string{
	"istio.io/dataplane-mode":             "there is no ambient mode; the Pod gets its sidecar",
	"istio.io/use-waypoint":               "there are no waypoints",
	"istio.io/use-waypoint-namespace":     "there are no waypoints",
	"service.istio.io/canonical-name":     "telemetry has no canonical services; serviceCluster of proxy.istio.io/config names the program in traces",
	"service.istio.io/canonical-revision": "telemetry has no canonical services",
	"service.istio.io/workload-name":      "the agent tells the workload by the Pod's name; ISTIO_META_WORKLOAD_NAME of proxyMetadata names another",
	"topology.istio.io/locality":          "the locality is that of the Pod's node",
	"topology.istio.io/cluster":           "clusterID of the injector's configuration is the cluster",
}

// labels warns about labels of Istio's without an effect.
func (w *wishes) labels(given map[string]string) {
	all := annotations()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		reason, found := labelsWithout[name]
		switch {
		case all[name] != nil && name != injectName && name != revisionName:
			w.warn("label %s: has no effect: it is an annotation", name)
		case found && given[name] != "none":
			w.warn("label %s: has no effect: %s", name, reason)
		case !found && name != injectName:
			w.unknown("label", name, map[string]known{injectName: nil})
		}
	}
}

// unknown warns about a name that is not known, if it is one of Istio's or close to one.
func (w *wishes) unknown(what, name string, all map[string]known) {
	if slices.ContainsFunc(owned, func(start string) bool { return strings.HasPrefix(name, start) }) {
		if w.full() {
			return // the near name costs more than all else
		}
		w.warn("%s %s: is not known here, and has no effect%s", what, shown(name), meant(name, slices.Collect(maps.Keys(all))))
	} else if near := misspelt(name, all); near != "" {
		w.warn("%s %s: is not known here, and has no effect; did you mean %s?", what, shown(name), near)
	}
}

// misspelt returns the known name that has the same second part as a name, and whose first part is like that of the name;
// "" for none.
func misspelt(name string, all map[string]known) string {
	domain, key, _ := strings.Cut(name, "/")
	for _, candidate := range slices.Sorted(maps.Keys(all)) {
		is, second, _ := strings.Cut(candidate, "/")
		if domain != is && len(second) > 5 && strings.EqualFold(key, second) &&
			(strings.Contains(domain, "istio") || spelling.Nearest(domain, []string{is}) != "") {
			return candidate
		}
	}
	return ""
}

// shown returns a name for a message in one line.
func shown(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, name[:min(len(name), 120)])
}

func meant(name string, known []string) string {
	slices.Sort(known)
	if near := spelling.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
