package envoy

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// recordsName is the cluster to which listeners send records of failed requests. It is at the agent's socket.
const recordsName = "agent_records"

// recordsCluster bounds what Envoy holds for an agent that does not read: 64 KB in the stream and as much in each worker's buffer,
// beyond which records are dropped and counted. Without these limits it grew by 280 bytes a record (measured on 1.40).
const recordsCluster = `{"name":"NAME","connect_timeout":"1s","per_connection_buffer_limit_bytes":65536,` +
	`"load_assignment":{"cluster_name":"NAME","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"pipe":{"path":SOCKET}}}}]}]},` +
	`"typed_extension_protocol_options":{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{` +
	`"@type":"type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions","explicit_http_config":{` +
	`"http2_protocol_options":{"initial_stream_window_size":65536,"initial_connection_window_size":65536}}}}}`

// recordsFor returns the cluster for Envoy to add to a bootstrap that names it; empty if none is to be added. The bootstrap of a role
// has it, and one of the user's own cannot know the socket's name. socket is empty where nothing is to be added.
func recordsFor(socket, bootstrap string, o Options) string {
	own := slices.ContainsFunc(o.Extra, func(arg string) bool { return strings.HasPrefix(arg, "--config-yaml") })
	if socket == "" || own || !strings.Contains(bootstrap, recordsName) || definesRecords(bootstrap) {
		return ""
	}
	path, _ := json.Marshal(socket) // a string
	return strings.NewReplacer("NAME", recordsName, "SOCKET", string(path)).Replace(recordsCluster)
}

// definesRecords reports whether a bootstrap has the cluster itself, such as one that `agent bootstrap` has printed: Envoy refuses a second one.
func definesRecords(bootstrap string) bool {
	type resources struct {
		Clusters []struct{ Name string }
	}
	var keys struct {
		Snake resources `yaml:"static_resources"`
		Camel resources `yaml:"staticResources"`
	}
	_ = yaml.Unmarshal([]byte(bootstrap), &keys) // JSON too; what is malformed is refused by Envoy
	return slices.ContainsFunc(append(keys.Snake.Clusters, keys.Camel.Clusters...), func(c struct{ Name string }) bool { return c.Name == recordsName })
}

// resources returns the static resources for Envoy to merge into the bootstrap; empty for none.
func (f files) resources() string {
	switch {
	case f.records == "":
		return f.gate
	case f.gate == "":
		return `{"clusters":[` + f.records + `]}`
	}
	return strings.Replace(f.gate, `"clusters":[`, `"clusters":[`+f.records+`,`, 1)
}
