package inject

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// wishes are the settings of one Pod: those of the Config, with its annotations over them. Every value is checked.
type wishes struct {
	image, mode, logLevel, agentLogLevel, componentLogLevel string
	hold, probes, metrics                                   bool
	native                                                  *bool
	statusPort                                              int
	ports, outboundPorts, skipPorts, skipOutboundPorts      string
	ranges, skipRanges, interfaces, skipInterfaces          string
	requests, limits                                        map[string]string // nil for those of the Config
	readiness                                               map[string]int
	volumes, mounts                                         []any
	override                                                string // a ConfigMap
	config                                                  map[string]any
	flags                                                   []string // of annotations that are flags of the agent

	warnings []string
}

func (w *wishes) warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// known is a known annotation: it checks a value and sets it.
type known func(w *wishes, value string) error

// put returns an annotation that sets a text.
func put(check func(string) error, set func(w *wishes, value string)) known {
	return func(w *wishes, value string) error {
		if err := check(value); err != nil {
			return err
		}
		set(w, value)
		return nil
	}
}

func flag(name string, check func(string) error) known {
	return put(check, func(w *wishes, value string) { w.flags = append(w.flags, "--"+name, literal(value)) })
}

// nothing returns a known annotation that has no effect here; it warns.
func nothing(instead string) known {
	return func(w *wishes, _ string) error {
		w.warn("has no effect: %s", instead)
		return nil
	}
}

func request(of func(w *wishes) *map[string]string, kind string) known {
	return put(isQuantity, func(w *wishes, value string) {
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

func readiness(key string) known {
	return put(isNumber, func(w *wishes, value string) { w.readiness[key], _ = strconv.Atoi(value) })
}

func setBool(set func(w *wishes, on bool)) known {
	return put(isBool, func(w *wishes, value string) { set(w, value == "true") })
}

func requestsOf(w *wishes) *map[string]string { return &w.requests }
func limitsOf(w *wishes) *map[string]string   { return &w.limits }

// annotations are Istio's annotations, by name.
func annotations() map[string]known {
	traffic := "traffic.sidecar.istio.io/"
	ready := "readiness.status.sidecar.istio.io/"
	return map[string]known{
		injectName: func(*wishes, string) error { return nil },
		statusName: func(*wishes, string) error { return nil },

		traffic + "includeInboundPorts":       put(arePorts, func(w *wishes, v string) { w.ports = v }),
		traffic + "excludeInboundPorts":       put(arePorts, func(w *wishes, v string) { w.skipPorts = v }),
		traffic + "includeOutboundPorts":      put(arePorts, func(w *wishes, v string) { w.outboundPorts = v }),
		traffic + "excludeOutboundPorts":      put(arePorts, func(w *wishes, v string) { w.skipOutboundPorts = v }),
		traffic + "includeOutboundIPRanges":   put(areRanges, func(w *wishes, v string) { w.ranges = v }),
		traffic + "excludeOutboundIPRanges":   put(areRanges, func(w *wishes, v string) { w.skipRanges = v }),
		traffic + "kubevirtInterfaces":        put(areInterfaces, func(w *wishes, v string) { w.interfaces = v }),
		"istio.io/reroute-virtual-interfaces": put(areInterfaces, func(w *wishes, v string) { w.interfaces = v }),
		traffic + "excludeInterfaces":         put(areInterfaces, func(w *wishes, v string) { w.skipInterfaces = v }),

		"sidecar.istio.io/proxyImage":             put(isImage, func(w *wishes, v string) { w.image = v }),
		"sidecar.istio.io/proxyCPU":               request(requestsOf, "cpu"),
		"sidecar.istio.io/proxyMemory":            request(requestsOf, "memory"),
		"sidecar.istio.io/proxyCPULimit":          request(limitsOf, "cpu"),
		"sidecar.istio.io/proxyMemoryLimit":       request(limitsOf, "memory"),
		"sidecar.istio.io/logLevel":               put(isLogLevel, func(w *wishes, v string) { w.logLevel = v }),
		"sidecar.istio.io/componentLogLevel":      put(isText, func(w *wishes, v string) { w.componentLogLevel = v }),
		"sidecar.istio.io/agentLogLevel":          put(isAgentLevel, func(w *wishes, v string) { w.agentLogLevel = v }),
		"sidecar.istio.io/interceptionMode":       put(isMode, func(w *wishes, v string) { w.mode = v }),
		"sidecar.istio.io/rewriteAppHTTPProbers":  setBool(func(w *wishes, on bool) { w.probes = on }),
		"sidecar.istio.io/nativeSidecar":          setBool(func(w *wishes, on bool) { w.native = &on }),
		"sidecar.istio.io/discoveryAddress":       put(isAddress, func(w *wishes, v string) { w.config["discoveryAddress"] = v }),
		"sidecar.istio.io/statsInclusionPrefixes": flag("statsInclusionPrefixes", isText),
		"sidecar.istio.io/statsInclusionSuffixes": flag("statsInclusionSuffixes", isText),
		"sidecar.istio.io/statsInclusionRegexps":  flag("statsInclusionRegexps", isText),
		"sidecar.istio.io/controlPlaneAuthPolicy": flag("controlPlaneAuthPolicy", func(s string) error { return isOneOf(s, "NONE", "MUTUAL_TLS") }),
		"sidecar.istio.io/bootstrapOverride":      put(isName, func(w *wishes, v string) { w.override = v }),
		"sidecar.istio.io/userVolume":             userVolumes,
		"sidecar.istio.io/userVolumeMount":        userMounts,
		"sidecar.istio.io/proxyImageType":         nothing("there is one image; sidecar.istio.io/proxyImage names another"),
		"sidecar.istio.io/enableCoreDump":         nothing("the agent keeps a flight record of a crash"),
		"sidecar.istio.io/extraStatTags":          nothing("a template of the bootstrap adds tags"),
		"sidecar.istio.io/statsCompression":       nothing("metrics are not compressed"),
		"sidecar.istio.io/statsHistogramBuckets":  nothing("a template of the bootstrap sets them"),
		"sidecar.istio.io/statsFlushInterval":     nothing("a template of the bootstrap sets it"),
		"sidecar.istio.io/statsEvictionInterval":  nothing("a template of the bootstrap sets it"),
		"proxy.istio.io/overrides":                nothing("it is what Istio's own webhook writes for itself"),
		"proxy.istio.io/config":                   annotatedConfig,
		"status.sidecar.istio.io/port":            put(isPort, func(w *wishes, v string) { w.statusPort, _ = strconv.Atoi(v) }),
		ready + "initialDelaySeconds":             readiness("initialDelaySeconds"),
		ready + "periodSeconds":                   readiness("periodSeconds"),
		ready + "failureThreshold":                readiness("failureThreshold"),
		ready + "applicationPorts":                nothing("readiness follows what Envoy has received and bound"),
		"prometheus.istio.io/merge-metrics":       setBool(func(w *wishes, on bool) { w.metrics = on }),
		"inject.istio.io/templates":               put(func(s string) error { return isOneOf(s, "sidecar") }, func(*wishes, string) {}),
		"inject.istio.io/":                        nothing("it has no name"),
	}
}

func isAgentLevel(s string) error { return isOneOf(s, "debug", "info", "warn", "error") }

// owned are the prefixes of names for which an unknown annotation is a warning.
var owned = []string{
	"sidecar.istio.io/", "traffic.sidecar.istio.io/", "proxy.istio.io/", "status.sidecar.istio.io/", "readiness.status.sidecar.istio.io/",
	"inject.istio.io/", "prometheus.istio.io/",
}

// wish reads the annotations. The error has all faults.
func (i *Injector) wish(p pod) (*wishes, error) {
	c := i.config
	w := &wishes{
		image: c.Image, mode: c.InterceptionMode, logLevel: c.LogLevel, hold: c.HoldApplication, probes: c.RewriteProbes, metrics: c.MergeMetrics,
		native: c.NativeSidecar, statusPort: 15020, ports: c.IncludeInboundPorts, skipPorts: c.ExcludeInboundPorts,
		outboundPorts: c.IncludeOutboundPorts, skipOutboundPorts: c.ExcludeOutboundPorts, ranges: c.IncludeOutboundCIDRs, skipRanges: c.ExcludeOutboundCIDRs,
		readiness: map[string]int{}, config: map[string]any{},
	}
	maps.Copy(w.config, clone(c.ProxyConfig).(map[string]any))
	var faults []error
	all := annotations()
	given := p.annotations()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		set, found := all[name]
		if !found {
			if slices.ContainsFunc(owned, func(start string) bool { return strings.HasPrefix(name, start) }) {
				w.warn("annotation %s: is not known here, and has no effect%s", name, meant(name, slices.Collect(maps.Keys(all))))
			}
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
	if err := w.configure(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, w.check())
	return w, errors.Join(faults...)
}

func meant(name string, known []string) string {
	slices.Sort(known)
	if near := spelling.Nearest(name, known); near != "" {
		return "; " + near + " is"
	}
	return ""
}

// check finds values that contradict each other.
func (w *wishes) check() error {
	for _, kind := range []string{"cpu", "memory"} {
		request, limit := w.requests[kind], w.limits[kind]
		if request == "" || limit == "" || isQuantity(request) != nil || isQuantity(limit) != nil {
			continue
		}
		asked, most := resource.MustParse(request), resource.MustParse(limit)
		if asked.Cmp(most) > 0 {
			return fmt.Errorf("the sidecar's %s: %s are requested, and the limit is %s", kind, request, limit)
		}
	}
	w.logLevel = cmp.Or(w.logLevel, "warning")
	return nil
}
