package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// annotatedConfig merges a Pod's ProxyConfig over that of all proxies, as Istio does: objects are merged, all other
// values are replaced.
func annotatedConfig(w *wishes, text string) error {
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &given); err != nil {
		return fmt.Errorf("is no ProxyConfig: %w", err)
	}
	lay(w.config, given)
	return nil
}

func lay(under, over map[string]any) {
	for key, value := range over {
		below, hasBelow := under[key].(map[string]any)
		above, isObject := value.(map[string]any)
		if hasBelow && isObject {
			lay(below, above)
			continue
		}
		under[key] = clone(value)
	}
}

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
	{"drainDuration", "drainDuration", isDuration},
	{"parentShutdownDuration", "parentShutdownDuration", isDuration},
	{"terminationDrainDuration", "terminationDrainDuration", isDuration},
	{"availabilityZone", "availabilityZone", isText},
	{"controlPlaneAuthPolicy", "controlPlaneAuthPolicy", func(s string) error { return isOneOf(s, "NONE", "MUTUAL_TLS") }},
	{"proxyAdminPort", "proxyAdminPort", isNumber},
	{"statsdUdpAddress", "statsdUdpAddress", isAddress},
	{"zipkinAddress", "zipkinAddress", isAddress},
	{"tracing.zipkin.address", "zipkinAddress", isAddress},
	{"envoyMetricsService.address", "envoyMetricsService", isAddress},
	{"envoyAccessLogService.address", "envoyAccessLogService", isAddress},
	{"proxyStatsMatcher.inclusionPrefixes", "statsInclusionPrefixes", isText},
	{"proxyStatsMatcher.inclusionSuffixes", "statsInclusionSuffixes", isText},
	{"proxyStatsMatcher.inclusionRegexps", "statsInclusionRegexps", isText},
}

// own are fields that the injector or the agent reads itself.
var own = []string{"statusPort", "interceptionMode", "holdApplicationUntilProxyStarts", "proxyMetadata", "meshId", "concurrency", "gatewayTopology", "runtimeValues"}

// without are fields of Istio's ProxyConfig that have no effect here.
var without = []string{
	"configPath", "connectTimeout", "customConfig", "proxyBootstrap", "statNameLength", "extraStatTags", "sds", "caCertificatesPem", "image", "privateKeyProvider",
	"proxyHeaders", "readinessProbe", "fileFlushInterval", "fileFlushMinSizeKb", "zipkin", "tracingServiceName", "discoveryRefreshDelay",
}

// configure applies the ProxyConfig. The error has all faults.
func (w *wishes) configure() error {
	var faults []error
	fault := func(path string, err error) {
		faults = append(faults, fmt.Errorf("proxy.istio.io/config: %s: %w", path, err))
	}
	given := w.leaves(w.config, "")
	for _, path := range slices.Sorted(maps.Keys(given)) {
		text, isPlain := plain(given[path])
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
			set(settings[i].check, func() { w.flags = append(w.flags, "--"+settings[i].flag, literal(text)) })
		case path == "statusPort":
			set(isPort, func() { w.statusPort, _ = strconv.Atoi(text) })
		case path == "interceptionMode":
			set(isMode, func() { w.mode = text })
		case path == "holdApplicationUntilProxyStarts":
			set(isBool, func() { w.hold = text == "true" })
		case path == "concurrency":
			set(isNumber, func() {})
		case path == "meshId":
			set(isText, func() {})
		case path == "proxyMetadata" || path == "runtimeValues":
			if _, err := w.table(path); err != nil {
				fault(path, err)
			}
		case slices.Contains(own, path):
		case slices.Contains(without, path):
			w.warn("proxy.istio.io/config: %s: has no effect here", path)
		default:
			w.warn("proxy.istio.io/config: %s: is not known here, and has no effect%s", path, meant(path, names()))
		}
	}
	return errors.Join(faults...)
}

func names() []string {
	out := slices.Concat(own, without)
	for _, s := range settings {
		out = append(out, s.path)
	}
	return out
}

// leaves returns the values by path. It descends into an object only where settings have longer paths.
func (w *wishes) leaves(o map[string]any, at string) map[string]any {
	out := map[string]any{}
	for key, value := range o {
		path := at + key
		child, isObject := value.(map[string]any)
		deeper := slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.path, path+".") })
		if isObject && deeper {
			maps.Copy(out, w.leaves(child, path+"."))
		} else if value != nil {
			out[path] = value
		}
	}
	return out
}

// plain returns a value in the form of a flag: a list of texts is joined by commas.
func plain(v any) (string, bool) {
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

// table returns an object of plain values.
func (w *wishes) table(key string) (map[string]string, error) {
	out := map[string]string{}
	found, isObject := w.config[key].(map[string]any)
	if !isObject && w.config[key] != nil {
		return nil, errors.New("want an object of texts")
	}
	for name, value := range found {
		text, ok := plain(value)
		switch {
		case !ok:
			return nil, fmt.Errorf("%.60s: want a text", name)
		case key == "proxyMetadata" && !variable.MatchString(name):
			return nil, fmt.Errorf("%.60q: is no name of a variable", name)
		case key == "proxyMetadata" && slices.Contains(reserved, name):
			return nil, fmt.Errorf("%s: is set by the injector", name)
		case key == "runtimeValues" && strings.ContainsAny(name+text, ",="):
			return nil, fmt.Errorf("%.60q: neither , nor = can be in a name or a value", name)
		}
		out[name] = text
	}
	return out, nil
}

// read returns the part of the ProxyConfig that the agent reads itself, as JSON.
func (w *wishes) read() string {
	out := map[string]any{}
	for _, key := range []string{"concurrency", "gatewayTopology"} {
		if value, said := w.config[key]; said && value != nil {
			out[key] = value
		}
	}
	if text, ok := plain(w.config["concurrency"]); ok {
		if n, err := strconv.Atoi(text); err == nil {
			out["concurrency"] = n
		}
	}
	if len(out) == 0 {
		return ""
	}
	return inVariable(out)
}
