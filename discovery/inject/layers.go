package inject

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

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

// joinLayers joins the ProxyConfig of the Config, the layers, and the Pod's annotation, as Istio's injector does:
// objects are merged, lists are joined, and of two other values the one with priority is used.
func (w *wishes) joinLayers(lowest map[string]any, layers []Layer, annotation string) error {
	w.lay(w.config, lowest, "", configFrom)
	for _, l := range layers {
		if !l.Over {
			w.lay(w.config, l.Config, "", l.From)
		}
	}
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(annotation), &given); err != nil {
		return fmt.Errorf("annotation %s: is no ProxyConfig: %w", configName, err)
	}
	w.lay(w.config, given, "", configName)
	for _, l := range layers {
		if l.Over {
			w.lay(w.config, l.Config, "", l.From)
		}
	}
	return nil
}

func (w *wishes) lay(under, over map[string]any, at, from string) {
	for key, value := range over {
		below, hasBelow := under[key].(map[string]any)
		above, isObject := value.(map[string]any)
		if hasBelow && isObject {
			w.lay(below, above, at+key+".", from)
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
func (w *wishes) from(path string) string {
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
