package explain

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// hello is how a connection to an endpoint begins.
type hello struct {
	encrypted bool
	mutual    bool // with a certificate
	server    string
	protocols []string                   // ALPN
	marked    []string                   // the same for a request; nil if it is no other
	names     []*matcherv3.StringMatcher // one of which the server's certificate must have; nil for any
	other     string                     // the name of a transport socket that is not judged
}

// helloTo says how a connection to an endpoint begins.
func helloTo(c *clusterv3.Cluster, e *endpointv3.LbEndpoint) hello {
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
	h := helloOf(socket)
	h.marked = xds.MarkedALPN(c)
	return h
}

func helloOf(socket *corev3.TransportSocket) hello {
	t, ok := unpack(socket.GetTypedConfig()).(*tlsv3.UpstreamTlsContext)
	switch {
	case socket == nil, !ok && strings.Contains(socket.Name, "raw_buffer"):
		return hello{}
	case !ok:
		return hello{other: socket.Name}
	}
	common := t.GetCommonTlsContext()
	out := hello{
		encrypted: true, mutual: len(common.GetTlsCertificateSdsSecretConfigs())+len(common.GetTlsCertificates()) > 0,
		server: t.Sni, protocols: common.GetAlpnProtocols(),
	}
	validation := common.GetValidationContext()
	if combined := common.GetCombinedValidationContext(); combined != nil {
		validation = combined.DefaultValidationContext
	}
	for _, m := range validation.GetMatchTypedSubjectAltNames() {
		out.names = append(out.names, m.Matcher)
	}
	return out
}

// peers reports whether the connection is one between sidecars, with certificates of the mesh.
func (h hello) peers() bool {
	return h.mutual && slices.ContainsFunc(h.protocols, func(p string) bool { return strings.HasPrefix(p, "istio") })
}

// kind is what is spoken, for a sentence.
func (h hello) kind() string {
	switch {
	case h.other != "":
		return h.other
	case !h.encrypted:
		return "plain text"
	case h.mutual:
		return "mutual TLS"
	}
	return "TLS"
}

func (h hello) text() string {
	out := h.kind()
	if h.server != "" {
		out += " to " + h.server
	}
	if h.peers() {
		out += ", as Istio's sidecars speak it"
	}
	return out
}
