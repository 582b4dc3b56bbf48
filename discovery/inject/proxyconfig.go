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

	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/node"
)

// setting is a field of ProxyConfig for which the agent has a flag.
type setting struct {
	path  string
	flag  string
	check func(string) error
}

var settings = []setting{
	{"discoveryAddress", "discoveryAddress", isAddress},
	{"serviceCluster", "serviceCluster", isText},
	{"binaryPath", "binaryPath", isText},
	{"customConfigFile", "customConfigFile", isText},
	{"proxyBootstrapTemplatePath", "templateFile", isText},
	{"drainDuration", "drainDuration", isWholeSeconds},
	{"parentShutdownDuration", "parentShutdownDuration", isWholeSeconds},
	{"terminationDrainDuration", "terminationDrainDuration", isDuration},
	{"availabilityZone", "availabilityZone", isText},
	{"controlPlaneAuthPolicy", "controlPlaneAuthPolicy", func(s string) error { return isOneOf(s, "NONE", "MUTUAL_TLS") }},
	{"proxyAdminPort", "proxyAdminPort", isPort},
	{"statsdUdpAddress", "statsdUdpAddress", isAddress},
	{"zipkinAddress", "zipkinAddress", isAddress},
	{"tracing.zipkin.address", "zipkinAddress", isAddress},
	{"envoyMetricsServiceAddress", "envoyMetricsService", isAddress},
	{"envoyMetricsService.address", "envoyMetricsService", isAddress},
	{"envoyAccessLogService.address", "envoyAccessLogService", isAddress},
	{"proxyStatsMatcher.inclusionPrefixes", "statsInclusionPrefixes", isText},
	{"proxyStatsMatcher.inclusionSuffixes", "statsInclusionSuffixes", isText},
	{"proxyStatsMatcher.inclusionRegexps", "statsInclusionRegexps", isText},
}

// handledFields are fields that the injector or the agent reads itself.
var handledFields = []string{
	"statusPort", "interceptionMode", "holdApplicationUntilProxyStarts", "proxyMetadata", "meshId", "concurrency", "gatewayTopology", "runtimeValues", "image.imageType",
}

// fieldsWithoutEffect are fields of Istio's ProxyConfig that have no effect here.
var fieldsWithoutEffect = []string{
	"configPath", "connectTimeout", "customConfig", "proxyBootstrap", "statNameLength", "extraStatTags", "sds", "caCertificatesPem", "privateKeyProvider",
	"proxyHeaders", "readinessProbe", "fileFlushInterval", "fileFlushMinSizeKb", "zipkin", "tracingServiceName", "discoveryRefreshDelay", "statsCompression", "connectionSettings",
	"tracing.lightstep", "tracing.datadog", "tracing.stackdriver", "tracing.openCensusAgent", "tracing.customTags", "tracing.maxPathTagLength", "tracing.sampling",
	"tracing.tlsSettings", "tracing.enableIstioTags",
	"envoyMetricsService.tlsSettings", "envoyMetricsService.tcpKeepalive", "envoyAccessLogService.tlsSettings", "envoyAccessLogService.tcpKeepalive",
}

// configure applies the ProxyConfig. The error has all faults. It warns about values without effect from one origin: those
// of the others are reported where they are set, once and not for each Pod.
func (w *annotations) configure(origin string) error {
	var faults []error
	fault := func(path string, err error) {
		faults = append(faults, fmt.Errorf("%s: %s: %w", w.from(path), path, err))
	}
	given := w.leaves(w.config, "")
	for _, path := range inOrder(given) {
		text, isPlain := singleLine(given[path])
		set := func(check func(string) error, set func()) {
			if !isPlain {
				fault(path, errors.New("is an object or a list, want one value"))
			} else if err := check(text); err != nil {
				fault(path, err)
			} else {
				set()
			}
		}
		i := slices.IndexFunc(settings, func(s setting) bool { return s.path == path })
		switch {
		case i >= 0:
			set(settings[i].check, func() { w.flags[settings[i].flag] = text })
		case path == "statusPort":
			set(isPort, func() { w.statusPort, _ = strconv.Atoi(text) })
		case path == "interceptionMode":
			set(isMode, func() { w.traffic.mode = text })
		case path == "holdApplicationUntilProxyStarts":
			set(isBool, func() { w.hold = isTrue(text) })
		case path == "concurrency":
			set(isNumber, func() {})
		case path == "meshId":
			set(isText, func() {})
		case path == "image.imageType":
			set(isText, func() { w.image.typed = text })
		case path == "proxyMetadata" || path == "runtimeValues":
			if _, err := w.textMap(path); err != nil {
				faults = append(faults, err)
			}
		case slices.Contains(handledFields, path):
		case w.from(path) != origin:
		case slices.Contains(fieldsWithoutEffect, path):
			w.warn("%s: %s: has no effect here", origin, path)
		case w.full():
		default:
			w.warn("%s: %s: is not known here, and has no effect%s", origin, printable(path), didYouMean(path, names()))
		}
	}
	return errors.Join(faults...)
}

// inOrder returns the paths of values: those with a flag in the order of settings, so that of two fields for one flag
// the newer one is used, then the others.
func inOrder(given map[string]any) []string {
	place := func(path string) int {
		if i := slices.IndexFunc(settings, func(s setting) bool { return s.path == path }); i >= 0 {
			return i
		}
		return len(settings)
	}
	return slices.SortedFunc(maps.Keys(given), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}

// names returns the paths of the fields of Istio's ProxyConfig that are known here.
func names() []string {
	out := slices.Concat(handledFields, fieldsWithoutEffect)
	for _, s := range settings {
		out = append(out, s.path)
	}
	return out
}

// leaves returns the values by path. It descends into an object only where known fields have longer paths.
func (w *annotations) leaves(o map[string]any, at string) map[string]any {
	out := map[string]any{}
	for key, value := range o {
		path := at + key
		child, isObject := value.(map[string]any)
		deeper := slices.ContainsFunc(names(), func(name string) bool { return strings.HasPrefix(name, path+".") })
		if isObject && deeper {
			maps.Copy(out, w.leaves(child, path+"."))
		} else if value != nil {
			out[path] = value
		}
	}
	return out
}

// singleLine returns a value in the form of a flag: a list of texts is joined by commas.
func singleLine(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool, int64, float64:
		text, err := json.Marshal(v)
		return string(text), err == nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, ok := item.(string)
			if !ok || strings.Contains(text, ",") {
				return "", false
			}
			items[i] = text
		}
		return strings.Join(items, ","), true
	}
	return "", false
}

// textMap returns an object of plain values. The error names the origin of the value.
func (w *annotations) textMap(key string) (map[string]string, error) {
	out := map[string]string{}
	found, isObject := w.config[key].(map[string]any)
	if !isObject && w.config[key] != nil {
		return nil, fmt.Errorf("%s: %s: want an object of texts", w.from(key), key)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fault := func(format string, args ...any) (map[string]string, error) {
			return nil, fmt.Errorf("%s: %s: %w", w.from(key+"."+name), key, fmt.Errorf(format, args...))
		}
		text, ok := singleLine(found[name])
		switch {
		case !ok:
			return fault("%.60s: want a text", name)
		case key == "proxyMetadata" && !variable.MatchString(name):
			return fault("%.60q: is no name of a variable", name)
		case key == "proxyMetadata" && node.Reserved(name):
			return fault("%s: is set by the injector", name)
		case key == "proxyMetadata" && len(name)+len(text) > longestVariable:
			return fault("%s: has %d bytes, no program starts with more than %d", name, len(text), longestVariable)
		case key == "proxyMetadata" && redirecting(name, text) != nil:
			return fault("%s: %w", name, redirecting(name, text))
		case key == "runtimeValues" && strings.ContainsAny(name+text, ",="):
			return fault("%.60q: neither , nor = can be in a name or a value", name)
		}
		out[name] = text
	}
	return out, nil
}

// proxyConfigVariable returns the part of the ProxyConfig that the agent reads itself, as JSON.
func (w *annotations) proxyConfigVariable() string {
	out := map[string]any{}
	for _, key := range []string{"concurrency", "gatewayTopology"} {
		if value, said := w.config[key]; said && value != nil {
			out[key] = value
		}
	}
	if text, ok := singleLine(w.config["concurrency"]); ok {
		if n, err := strconv.Atoi(text); err == nil {
			out["concurrency"] = n
		}
	}
	if len(out) == 0 {
		return ""
	}
	return inVariable(out)
}

// Layer is a place beside the Pod that sets Istio's ProxyConfig for it, such as MeshConfig's defaultConfig.
type Layer struct {
	From   string         // its name in messages
	Over   bool           // it has priority over the Pod's annotation proxy.istio.io/config
	Config map[string]any // by JSON names
}

// Layers returns the layers for a Pod with these labels, the one with the least priority first. A nil Layers has none.
type Layers func(namespace string, labels map[string]string) ([]Layer, error)

func (l Layers) of(namespace string, labels map[string]string) ([]Layer, error) {
	if l == nil {
		return nil, nil
	}
	return l(namespace, labels)
}

const configFrom = "config proxyConfig" // the origin of values of the Config

// mergeLayers joins the ProxyConfig of the Config, the layers, and the Pod's annotation, as Istio's injector does:
// objects are merged, lists are joined, and of two other values the one with priority is used.
func (w *annotations) mergeLayers(lowest map[string]any, layers []Layer, annotation string) error {
	w.mergeLayer(w.config, lowest, "", configFrom)
	for _, l := range layers {
		if !l.Over {
			w.mergeLayer(w.config, l.Config, "", l.From)
		}
	}
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(annotation), &given); err != nil {
		return fmt.Errorf("annotation %s: is no ProxyConfig: %w", configName, err)
	}
	w.mergeLayer(w.config, given, "", configName)
	for _, l := range layers {
		if l.Over {
			w.mergeLayer(w.config, l.Config, "", l.From)
		}
	}
	return nil
}

func (w *annotations) mergeLayer(under, over map[string]any, at, from string) {
	for key, value := range over {
		below, hasBelow := under[key].(map[string]any)
		above, isObject := value.(map[string]any)
		if hasBelow && isObject {
			w.mergeLayer(below, above, at+key+".", from)
			continue
		}
		w.origins[at+key] = from
		list, hasList := under[key].([]any)
		more, isList := value.([]any)
		if hasList && isList {
			under[key] = slices.Concat(list, clone(more).([]any))
			continue
		}
		under[key] = clone(value)
	}
}

// from returns the origin of a value of the ProxyConfig.
func (w *annotations) from(path string) string {
	for {
		if origin, known := w.origins[path]; known {
			return origin
		}
		up := strings.LastIndexByte(path, '.')
		if up < 0 {
			return configName
		}
		path = path[:up]
	}
}
