package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ProxyConfigVariable holds Istio's ProxyConfig of this proxy, as YAML or JSON: its injector joins MeshConfig's
// defaultConfig, the ProxyConfig objects that select the pod, and the pod's annotation in it.
const ProxyConfigVariable = "PROXY_CONFIG"

// ProxyConfig is an Istio ProxyConfig, by its keys. Discovery receives all of it.
type ProxyConfig map[string]any

// ReadProxyConfig parses the ProxyConfig of an environment; nil if there is none.
func ReadProxyConfig(env Environment) (ProxyConfig, error) {
	text := env[ProxyConfigVariable]
	if text == "" {
		return nil, nil
	}
	var c map[string]any // nested objects are decoded into this type, too
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("environment %s: want an object, such as {\"concurrency\":2}: %w", ProxyConfigVariable, err)
	}
	if n, said := c["concurrency"]; said && n != nil {
		if workers, whole := n.(int); !whole || workers < 0 {
			return nil, fmt.Errorf("environment %s: concurrency: is %v, want a whole number, 0 for all processors", ProxyConfigVariable, n)
		}
	}
	return c, nil
}

// Workers returns c's number of workers for Envoy, the number of processors if c has 0, and whether c sets it at all.
func (c ProxyConfig) Workers(processors int) (workers int, said bool) {
	n, said := c["concurrency"].(int)
	if said && n == 0 {
		n = processors
	}
	return n, said
}

// Unread returns the keys of c that have no effect, and the names in its proxyMetadata that have no effect.
func (c ProxyConfig) Unread() (keys, names []string) {
	keys = slices.DeleteFunc(slices.Sorted(maps.Keys(c)), func(key string) bool {
		return key == "concurrency" || key == "proxyMetadata" || key == "gatewayTopology" // used by the agent and discovery
	})
	_, names = c.metadata()
	return keys, names
}

// metadata returns the ISTIO_META_ names of proxyMetadata, which become node metadata like such variables of the
// environment, and the other names, which would have an effect only in a container's environment.
func (c ProxyConfig) metadata() (metadata map[string]string, others []string) {
	variables, _ := c["proxyMetadata"].(map[string]any)
	metadata = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if key, ok := strings.CutPrefix(name, MetaPrefix); ok && key != "" {
			metadata[key] = fmt.Sprint(variables[name])
		} else {
			others = append(others, name)
		}
	}
	return metadata, others
}
