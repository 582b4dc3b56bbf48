package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// proxyConfigVariable holds Istio's ProxyConfig of this proxy, as YAML or JSON: its injector joins MeshConfig's
// defaultConfig, the ProxyConfig objects that select the pod, and the pod's annotation in it.
const proxyConfigVariable = "PROXY_CONFIG"

// proxyConfig is an Istio ProxyConfig, by its keys. Discovery is told it whole.
type proxyConfig map[string]any

func readProxyConfig(env environment) (proxyConfig, error) {
	text := env[proxyConfigVariable]
	if text == "" {
		return nil, nil
	}
	var c map[string]any // as which objects below are read, too
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("environment %s: want an object, such as {\"concurrency\":2}: %w", proxyConfigVariable, err)
	}
	if n, said := c["concurrency"]; said && n != nil {
		if workers, whole := n.(int); !whole || workers < 0 {
			return nil, fmt.Errorf("environment %s: concurrency: is %v, want a whole number, 0 for all processors", proxyConfigVariable, n)
		}
	}
	return c, nil
}

// takeProxyConfig takes the workers from c where no setting says how many: 0 is one for each processor.
func (s *settings) takeProxyConfig(c proxyConfig, processors int) {
	n, said := c["concurrency"].(int)
	if !said || s.concurrency != 0 {
		return
	}
	s.concurrency = n
	if n == 0 {
		s.concurrency = processors
	}
	s.origins.Derive("concurrency", "concurrency of "+proxyConfigVariable)
}

// warnUnread tells which keys of c count for nothing here.
func (c proxyConfig) warnUnread(log *slog.Logger) {
	unread := slices.DeleteFunc(slices.Sorted(maps.Keys(c)), func(key string) bool {
		return key == "concurrency" || key == "proxyMetadata" || key == "gatewayTopology" // the agent's, and discovery's
	})
	if len(unread) > 0 {
		log.Warn("keys of "+proxyConfigVariable+" are not read, use the agent's flags", "keys", unread)
	}
	if _, others := c.metadata(); len(others) > 0 {
		log.Warn("proxyMetadata of "+proxyConfigVariable+" is read for "+metaPrefix+" names only, set others in the environment", "names", others)
	}
}

// metadata are the ISTIO_META_ names of proxyMetadata, which are node metadata as such variables of the environment are, and
// the names of others, which only a container's environment could hold.
func (c proxyConfig) metadata() (metadata map[string]string, others []string) {
	variables, _ := c["proxyMetadata"].(map[string]any)
	metadata = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if key, ok := strings.CutPrefix(name, metaPrefix); ok && key != "" {
			metadata[key] = fmt.Sprint(variables[name])
		} else {
			others = append(others, name)
		}
	}
	return metadata, others
}
