package inject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// annotations are the settings of one Pod: those of the Config, with its annotations over them. Every value is checked.
type annotations struct {
	image                                      proxyImage
	traffic                                    interception
	logLevel, agentLogLevel, componentLogLevel string
	hold, probes, metrics                      bool
	native                                     *bool
	statusPort                                 int
	unprobed                                   bool              // the sidecar has no readiness probe
	user, group                                int64             // that the sidecar runs as, and pod-init leaves alone
	requests, limits                           map[string]string // nil for those of the Config
	readiness                                  map[string]int
	volumes, mounts                            []any
	override                                   string            // a ConfigMap
	config                                     map[string]any    // the ProxyConfig of all layers
	origins                                    map[string]string // the layers that set its values, by path
	flags                                      map[string]string // of the agent, by name

	warnings []string
	more     int // further warnings, which are only counted
}

type proxyImage struct {
	name, typed string
	named       bool // an annotation names the image
}

// interception is which connections pod-init redirects to the sidecar.
type interception struct {
	mode                                         string
	includeInboundPorts, excludeInboundPorts     string
	includeOutboundPorts, excludeOutboundPorts   string
	includeOutboundRanges, excludeOutboundRanges string
	interfaces, excludeInterfaces                string
}

// enough warnings tell a person what to do. A Pod may have a hundred thousand wrong names.
const enough = 40

func (w *annotations) warn(format string, args ...any) {
	if w.full() {
		return
	}
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// full reports whether there are enough warnings, and counts the one that is not written.
func (w *annotations) full() bool {
	if len(w.warnings) < enough {
		return false
	}
	w.more++
	return true
}

// setter is a known annotation: it checks a value and sets it.
type setter func(w *annotations, value string) error

// put returns an annotation that sets a text.
func put(check func(string) error, set func(w *annotations, value string)) setter {
	return func(w *annotations, value string) error {
		if err := check(value); err != nil {
			return err
		}
		set(w, value)
		return nil
	}
}

// tidy returns an annotation that sets a list, as the check returns it.
func tidy(check func(string) (string, error), set func(t *interception, value string)) setter {
	return func(w *annotations, value string) error {
		tidied, err := check(value)
		if err != nil {
			return err
		}
		set(&w.traffic, tidied)
		return nil
	}
}

func flag(name string, check func(string) error) setter {
	return put(check, func(w *annotations, value string) { w.flags[name] = value })
}

// ignored returns a known annotation that has no effect here; it warns.
func ignored(instead string) setter {
	return func(w *annotations, _ string) error {
		w.warn("has no effect: %s", instead)
		return nil
	}
}

func setResource(of func(w *annotations) *map[string]string, kind string) setter {
	return put(isQuantity, func(w *annotations, value string) {
		if *of(w) == nil {
			*of(w) = map[string]string{}
		}
		(*of(w))[kind] = value
	})
}

func isQuantity(s string) error {
	if q, err := resource.ParseQuantity(s); err != nil || q.Sign() < 0 {
		return fmt.Errorf("is %.40q, want a quantity such as 100m or 128Mi", s)
	}
	return nil
}

func readiness(key string) setter {
	return put(isNumber, func(w *annotations, value string) { w.readiness[key], _ = strconv.Atoi(value) })
}

func setBool(set func(w *annotations, on bool)) setter {
	return put(isBool, func(w *annotations, value string) { set(w, isTrue(value)) })
}

func requestsOf(w *annotations) *map[string]string { return &w.requests }
func limitsOf(w *annotations) *map[string]string   { return &w.limits }

// knownAnnotations are Istio's annotations, by name.
func knownAnnotations() map[string]setter {
	out := sidecarAnnotations()
	maps.Copy(out, trafficAnnotations())
	maps.Copy(out, withoutEffect())
	return out
}

// trafficAnnotations say which connections are intercepted.
func trafficAnnotations() map[string]setter {
	const traffic = "traffic.sidecar.istio.io/"
	return map[string]setter{
		traffic + "includeInboundPorts":       tidy(allOr(arePorts), func(t *interception, v string) { t.includeInboundPorts = v }),
		traffic + "excludeInboundPorts":       tidy(arePorts, func(t *interception, v string) { t.excludeInboundPorts = v }),
		traffic + "includeOutboundPorts":      tidy(arePorts, func(t *interception, v string) { t.includeOutboundPorts = v }),
		traffic + "excludeOutboundPorts":      tidy(arePorts, func(t *interception, v string) { t.excludeOutboundPorts = v }),
		traffic + "includeOutboundIPRanges":   tidy(allOr(areRanges), func(t *interception, v string) { t.includeOutboundRanges = v }),
		traffic + "excludeOutboundIPRanges":   tidy(areRanges, func(t *interception, v string) { t.excludeOutboundRanges = v }),
		traffic + "kubevirtInterfaces":        tidy(areInterfaces, func(t *interception, v string) { t.interfaces = v }),
		"istio.io/reroute-virtual-interfaces": tidy(areInterfaces, func(t *interception, v string) { t.interfaces = v }),
		traffic + "excludeInterfaces":         tidy(areInterfaces, func(t *interception, v string) { t.excludeInterfaces = v }),
	}
}

// sidecarAnnotations say how the sidecar runs.
func sidecarAnnotations() map[string]setter {
	const ready = "readiness.status.sidecar.istio.io/"
	return map[string]setter{
		"sidecar.istio.io/proxyImage":             put(isImage, func(w *annotations, v string) { w.image.name, w.image.named = v, true }),
		"sidecar.istio.io/proxyCPU":               setResource(requestsOf, "cpu"),
		"sidecar.istio.io/proxyMemory":            setResource(requestsOf, "memory"),
		"sidecar.istio.io/proxyCPULimit":          setResource(limitsOf, "cpu"),
		"sidecar.istio.io/proxyMemoryLimit":       setResource(limitsOf, "memory"),
		"sidecar.istio.io/logLevel":               put(isLogLevel, func(w *annotations, v string) { w.logLevel = v }),
		"sidecar.istio.io/componentLogLevel":      put(isText, func(w *annotations, v string) { w.componentLogLevel = v }),
		"sidecar.istio.io/agentLogLevel":          put(isAgentLevel, func(w *annotations, v string) { w.agentLogLevel = v }),
		"sidecar.istio.io/interceptionMode":       put(isMode, func(w *annotations, v string) { w.traffic.mode = v }),
		"sidecar.istio.io/rewriteAppHTTPProbers":  setBool(func(w *annotations, on bool) { w.probes = on }),
		"sidecar.istio.io/nativeSidecar":          setBool(func(w *annotations, on bool) { w.native = &on }),
		"sidecar.istio.io/discoveryAddress":       flag("discoveryAddress", isAddress),
		"sidecar.istio.io/statsInclusionPrefixes": flag("statsInclusionPrefixes", isText),
		"sidecar.istio.io/statsInclusionSuffixes": flag("statsInclusionSuffixes", isText),
		"sidecar.istio.io/statsInclusionRegexps":  flag("statsInclusionRegexps", isText),
		"sidecar.istio.io/controlPlaneAuthPolicy": flag("controlPlaneAuthPolicy", func(s string) error { return isOneOf(s, "NONE", "MUTUAL_TLS") }),
		"sidecar.istio.io/bootstrapOverride":      put(isName, func(w *annotations, v string) { w.override = v }),
		"sidecar.istio.io/userVolume":             userVolumes,
		"sidecar.istio.io/userVolumeMount":        userMounts,
		"sidecar.istio.io/proxyImageType":         put(isText, func(w *annotations, v string) { w.image.typed = v }),
		"status.sidecar.istio.io/port":            statusPort,
		ready + "initialDelaySeconds":             readiness("initialDelaySeconds"),
		ready + "periodSeconds":                   readiness("periodSeconds"),
		ready + "failureThreshold":                readiness("failureThreshold"),
		"prometheus.istio.io/merge-metrics":       setBool(func(w *annotations, on bool) { w.metrics = on }),
		"inject.istio.io/templates":               put(areTemplates, func(*annotations, string) {}),
	}
}

// withoutEffect are annotations that change nothing: a warning says why, unless another reader has them.
func withoutEffect() map[string]setter {
	elsewhere := func(*annotations, string) error { return nil }
	return map[string]setter{
		injectName:                         elsewhere, // read before
		configName:                         elsewhere, // likewise
		statusName:                         elsewhere, // an injector writes it
		revisionName:                       elsewhere, // likewise
		"galley.istio.io/analyze-suppress": elsewhere, // read by istioctl alone

		"sidecar.istio.io/enableCoreDump":         ignored("the agent keeps a flight record of a crash"),
		"sidecar.istio.io/extraStatTags":          ignored("a template of the bootstrap adds tags"),
		"sidecar.istio.io/statsCompression":       ignored("metrics are not compressed"),
		"sidecar.istio.io/statsHistogramBuckets":  ignored("a template of the bootstrap sets them"),
		"sidecar.istio.io/statsHistogramBins":     ignored("a template of the bootstrap sets them"),
		"sidecar.istio.io/statsFlushInterval":     ignored("a template of the bootstrap sets it"),
		"sidecar.istio.io/statsEvictionInterval":  ignored("a template of the bootstrap sets it"),
		"ambient.istio.io/bypass-inbound-capture": ignored("there is no ambient mode"),
		"ambient.istio.io/dns-capture":            ignored("there is no ambient mode; proxyMetadata ISTIO_META_DNS_CAPTURE captures DNS"),
		"ambient.istio.io/redirection":            ignored("there is no ambient mode"),
		"proxy.istio.io/overrides":                ignored("it is what Istio's own webhook writes for itself"),
		"inject.istio.io/":                        ignored("it has no name"),

		"readiness.status.sidecar.istio.io/applicationPorts": ignored("readiness follows what Envoy has received and bound"),
	}
}

// statusPort sets the port, or with 0, as in Istio, leaves out the probes of the sidecar; the agent listens all the same.
func statusPort(w *annotations, text string) error {
	if w.unprobed = trimmed(text) == "0"; w.unprobed {
		return nil
	}
	err := isPort(trimmed(text))
	if err == nil {
		w.statusPort, _ = strconv.Atoi(trimmed(text))
	}
	return err
}

// areTemplates accepts the name of the one template, which may be repeated: applied again it changes nothing.
func areTemplates(s string) error {
	for item := range strings.SplitSeq(s, ",") {
		if err := isOneOf(trimmed(item), "sidecar"); err != nil {
			return err
		}
	}
	return nil
}

func isAgentLevel(s string) error { return isOneOf(s, "debug", "info", "warn", "error") }

// readAnnotations reads the ProxyConfig of all layers, and then the annotations, which have priority. The error has all
// faults.
func (i *Injector) readAnnotations(p pod, layers []Layer) (*annotations, error) {
	c := i.config
	w := &annotations{
		image: proxyImage{name: c.Image},
		traffic: interception{
			mode:                c.InterceptionMode,
			includeInboundPorts: c.IncludeInboundPorts, excludeInboundPorts: c.ExcludeInboundPorts,
			includeOutboundPorts: c.IncludeOutboundPorts, excludeOutboundPorts: c.ExcludeOutboundPorts,
			includeOutboundRanges: c.IncludeOutboundCIDRs, excludeOutboundRanges: c.ExcludeOutboundCIDRs,
		},
		logLevel: c.LogLevel, hold: c.HoldApplication, probes: c.RewriteProbes, metrics: c.MergeMetrics,
		native: c.NativeSidecar, statusPort: 15020, user: uid, group: uid,
		readiness: map[string]int{}, config: map[string]any{}, origins: map[string]string{}, flags: map[string]string{},
	}
	given := p.annotations()
	faults := []error{w.mergeLayers(c.ProxyConfig, layers, given[configName]), w.configure(configName)}
	all := knownAnnotations()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		set, found := all[name]
		if !found {
			w.unknown("annotation", name, all)
			continue
		}
		before := len(w.warnings)
		if err := set(w, given[name]); err != nil {
			faults = append(faults, fmt.Errorf("annotation %s: %w", name, err))
		}
		for n := before; n < len(w.warnings); n++ {
			w.warnings[n] = "annotation " + name + ": " + w.warnings[n]
		}
	}
	w.labels(p.labels())
	w.chooseImage(c)
	faults = append(faults, w.check())
	return w, errors.Join(faults...)
}

// chooseImage sets the image by the type of image that is asked for.
func (w *annotations) chooseImage(c Config) {
	if w.image.named || w.image.typed == "" || w.image.typed == "default" {
		return
	}
	if image := c.ImageTypes[w.image.typed]; image != "" {
		w.image.name = image
		return
	}
	w.warn("the image type %.60q has no image under imageTypes of the injector's configuration: the image is %s",
		w.image.typed, w.image.name)
}

// check finds values that contradict each other.
func (w *annotations) check() error {
	var faults []error
	for _, kind := range []string{"cpu", "memory"} {
		request, limit := w.requests[kind], w.limits[kind]
		if request == "" || limit == "" || isQuantity(request) != nil || isQuantity(limit) != nil {
			continue
		}
		asked, most := resource.MustParse(request), resource.MustParse(limit)
		if asked.Cmp(most) > 0 {
			faults = append(faults, fmt.Errorf("the sidecar's %s: %s are requested, and the limit is %s", kind, request, limit))
		}
	}
	w.logLevel = cmp.Or(w.logLevel, "warning")
	return errors.Join(append(faults, w.checkDrain(), w.checkPorts())...)
}

// checkDrain keeps parentShutdownDuration above drainDuration: else the agent does not start. Istio has only the second one.
func (w *annotations) checkDrain() error {
	const usual = time.Minute // of the agent's parentShutdownDuration
	drain, err := time.ParseDuration(w.flags["drainDuration"])
	if err != nil {
		return nil // it is not set, or has a fault
	}
	parent, err := time.ParseDuration(w.flags["parentShutdownDuration"])
	switch {
	case err == nil && parent <= drain:
		return fmt.Errorf("%s: parentShutdownDuration: is %v, want more than drainDuration, which is %v", w.from("parentShutdownDuration"), parent, drain)
	case err != nil && drain >= usual:
		w.flags["parentShutdownDuration"] = (drain + time.Minute/4).String()
	}
	return nil
}

// checkPorts finds two listeners on one port: then the agent or Envoy does not start.
func (w *annotations) checkPorts() error {
	used := map[string]string{"15001": "Envoy's outbound listener", "15006": "Envoy's inbound listener"}
	for _, own := range []struct{ name, port string }{{"statusPort", strconv.Itoa(w.statusPort)}, {"proxyAdminPort", cmp.Or(w.flags["proxyAdminPort"], "15000")}} {
		if other := used[own.port]; other != "" {
			return fmt.Errorf("%s: is %s, the port of %s", own.name, own.port, other)
		}
		used[own.port] = own.name
	}
	return nil
}

// istioPrefixes are the prefixes of names for which an unknown annotation or label is a warning.
var istioPrefixes = []string{
	"sidecar.istio.io/", "traffic.sidecar.istio.io/", "proxy.istio.io/", "status.sidecar.istio.io/", "readiness.status.sidecar.istio.io/",
	"inject.istio.io/", "prometheus.istio.io/", "ambient.istio.io/",
}

// labelsWithoutEffect are labels of Istio's that have no effect here, with the reason.
var labelsWithoutEffect = map[string]string{
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
func (w *annotations) labels(given map[string]string) {
	all := knownAnnotations()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		reason, found := labelsWithoutEffect[name]
		switch {
		case all[name] != nil && name != injectName && name != revisionName:
			w.warn("label %s: has no effect: it is an annotation", name)
		case found && given[name] != "none":
			w.warn("label %s: has no effect: %s", name, reason)
		case !found && name != injectName:
			w.unknown("label", name, map[string]setter{injectName: nil})
		}
	}
}

// unknown warns about a name that is not known, if it is one of Istio's or close to one.
func (w *annotations) unknown(what, name string, all map[string]setter) {
	if slices.ContainsFunc(istioPrefixes, func(start string) bool { return strings.HasPrefix(name, start) }) {
		if w.full() {
			return // the near name costs more than all else
		}
		w.warn("%s %s: is not known here, and has no effect%s",
			what, printable(name), didYouMean(name, slices.Collect(maps.Keys(all))))
	} else if near := misspelt(name, all); near != "" {
		w.warn("%s %s: is not known here, and has no effect; did you mean %s?", what, printable(name), near)
	}
}

// misspelt returns the known name that has the same second part as a name, and whose first part is like that of the name;
// "" for none.
func misspelt(name string, all map[string]setter) string {
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

// printable returns a name for a message in one line.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, name[:min(len(name), 120)])
}

func didYouMean(name string, known []string) string {
	slices.Sort(known)
	if near := spelling.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// configuredInterception returns, as annotations, the inbound traffic that pod-init leaves alone by the injector's own
// configuration: by those that the Pod has itself the agent knows it. Else the agent would take what comes directly for
// a redirection that is missing.
func (w *annotations) configuredInterception(given map[string]string) string {
	const traffic = "traffic.sidecar.istio.io/"
	out := map[string]string{}
	for _, one := range []struct{ key, value, none string }{
		{traffic + "includeInboundPorts", w.traffic.includeInboundPorts, "*"},
		{traffic + "excludeInboundPorts", w.traffic.excludeInboundPorts, ""},
	} {
		if _, known := given[one.key]; !known && one.value != one.none && w.traffic.mode != "NONE" {
			out[one.key] = one.value
		}
	}
	if len(out) == 0 {
		return ""
	}
	text, _ := json.Marshal(out) // texts always encode
	return string(text)
}
