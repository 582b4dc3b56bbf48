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

// ProxyConfig is an Istio ProxyConfig, by its keys. Discovery gets all of it.
type ProxyConfig map[string]any

// ReadProxyConfig reads the ProxyConfig of an environment, nil where it has none.
func ReadProxyConfig(env Environment) (ProxyConfig, error) {
	text := env[ProxyConfigVariable]
	if text == "" {
		return nil, nil
	}
	var c map[string]any // as which objects below are read, too
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

// Workers returns how many workers Envoy shall have by c, of processors where it says 0, and whether it says so at all.
func (c ProxyConfig) Workers(processors int) (workers int, said bool) {
	n, said := c["concurrency"].(int)
	if said && n == 0 {
		n = processors
	}
	return n, said
}

// Unread returns the keys of c that have no effect, and the names in its proxyMetadata that have none.
func (c ProxyConfig) Unread() (keys, names []string) {
	keys = slices.DeleteFunc(slices.Sorted(maps.Keys(c)), func(key string) bool {
		return key == "concurrency" || key == "proxyMetadata" || key == "gatewayTopology" // the agent's, and discovery's
	})
	_, names = c.metadata()
	return keys, names
}

// metadata are the ISTIO_META_ names of proxyMetadata, which are node metadata as such variables of the environment are, and
// the names of others, which only a container's environment could hold.
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
