package lab

import (
	"fmt"
	"net"
)

// StaticBootstrap returns a bootstrap without discovery: one inbound listener, named "inbound", in front of a program,
// both given as host:port. Every answer has the revision in its header x-rev.
func StaticBootstrap(listener, program string, revision int) string {
	return fmt.Sprintf(`{
  "node": {"id": "standalone", "cluster": "standalone"},
  "static_resources": {
    "listeners": [{
      "name": "inbound", "traffic_direction": "INBOUND", "address": %s,
      "filter_chains": [{"filters": [{"name": "http", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "inbound",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{
          "match": {"prefix": "/"}, "route": {"cluster": "program", "timeout": "0s"},
          "response_headers_to_add": [{"header": {"key": "x-rev", "value": "%d"}}]
        }]}]},
        "http_filters": [{"name": "router", "typed_config": {
          "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]
      }}]}]
    }],
    "clusters": [{"name": "program", "load_assignment": {"cluster_name": "program", "endpoints": [{"lb_endpoints": [
      {"endpoint": {"address": %s}}]}]}}]
  }
}`, SocketAddress(listener), revision, SocketAddress(program))
}

// SocketAddress returns Envoy's JSON of host:port.
func SocketAddress(address string) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf(`{"socket_address": {"address": %q, "port_value": %s}}`, host, port)
}
