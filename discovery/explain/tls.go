package explain

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// tlsTo says whether a connection to an endpoint is encrypted, and with what.
func tlsTo(c *clusterv3.Cluster, e *endpointv3.LbEndpoint) string {
	socket := c.TransportSocket
	own := e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()
	for _, m := range c.TransportSocketMatches {
		holds := true
		for key, want := range m.GetMatch().GetFields() {
			holds = holds && proto.Equal(own[key], want)
		}
		if holds {
			socket = m.TransportSocket
			break
		}
	}
	return socketText(socket)
}

func socketText(socket *corev3.TransportSocket) string {
	if socket == nil {
		return "plain text"
	}
	t, ok := unpack(socket.GetTypedConfig()).(*tlsv3.UpstreamTlsContext)
	if !ok {
		if strings.Contains(socket.Name, "raw_buffer") {
			return "plain text"
		}
		return socket.Name
	}
	out := "TLS"
	if common := t.GetCommonTlsContext(); len(common.GetTlsCertificateSdsSecretConfigs())+len(common.GetTlsCertificates()) > 0 {
		out = "mutual TLS"
	}
	if t.Sni != "" {
		out += " to " + t.Sni
	}
	if slices.ContainsFunc(t.GetCommonTlsContext().GetAlpnProtocols(), func(p string) bool { return strings.HasPrefix(p, "istio") }) {
		out += ", as Istio's sidecars speak it"
	}
	return out
}
