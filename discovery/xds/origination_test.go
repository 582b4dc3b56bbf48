package xds

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// TLS to a service is 1.2 or 1.3 in every mode. Unless the policy has an sni, the request's host is the SNI of the
// handshake. The certificate must then be valid for that host, unless the policy sets other names or accepts any
// certificate.
func TestTLSOrigination(t *testing.T) {
	skip := wrapperspb.Bool(true)
	names := []string{"b.example.com"}
	for name, test := range map[string]struct {
		tls  *networking.ClientTLSSettings
		port model.Port
		want string // automatic names, and ALPN
	}{
		"nothing said": {&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}, httpPort(80), "sni san"},
		"own sni": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, Sni: "b.example.com"}, httpPort(80), "",
		},
		"names of the certificate": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, SubjectAltNames: names}, httpPort(80), "sni",
		},
		"any certificate": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, InsecureSkipVerify: skip}, httpPort(80), "sni",
		},
		"mutual": {
			&networking.ClientTLSSettings{
				Mode: networking.ClientTLSSettings_MUTUAL, ClientCertificate: "/c", PrivateKey: "/k", InsecureSkipVerify: skip,
			}, httpPort(80), "sni",
		},
		"HTTP to a port of TLS": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE},
			model.Port{Name: "https", Number: 443, Protocol: model.HTTPS},
			"sni san",
		},
		"HTTP/2": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE},
			model.Port{Name: "grpc", Number: 80, Protocol: model.GRPC},
			"sni san h2",
		},
		"no protocol": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}, model.Port{Name: "any", Number: 80}, "sni san",
		},
		"of the mesh": {
			&networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL}, httpPort(80), "istio",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rule := &networking.DestinationRule{Host: "a.com", TrafficPolicy: &networking.TrafficPolicy{Tls: test.tls}}
			c := clusterOf(t, mesh(service("a.com", test.port), rule), viewOf(t, "127.0.0.9"), outboundName(test.port.Number, "", "a.com"))
			context := &tlsv3.UpstreamTlsContext{}
			if err := c.TransportSocket.GetTypedConfig().UnmarshalTo(context); err != nil {
				t.Fatal(err)
			}
			params := context.CommonTlsContext.TlsParams
			if params.GetTlsMinimumProtocolVersion() != tlsv3.TlsParameters_TLSv1_2 || params.GetTlsMaximumProtocolVersion() != tlsv3.TlsParameters_TLSv1_3 {
				t.Errorf("versions are %v, want TLS 1.2 and 1.3", params)
			}
			var got []string
			automatic := protocolsOf(t, c).GetUpstreamHttpProtocolOptions()
			if automatic.GetAutoSni() {
				got = append(got, "sni")
			}
			if automatic.GetAutoSanValidation() {
				got = append(got, "san")
			}
			got = append(got, context.CommonTlsContext.AlpnProtocols...)
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func clusterOf(t *testing.T, m *model.Mesh, v View, name string) *clusterv3.Cluster {
	t.Helper()
	r := Build(m, v)
	i := slices.IndexFunc(r.Clusters, func(c *clusterv3.Cluster) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no cluster %s", name)
	}
	return proto.CloneOf(r.Clusters[i])
}

func protocolsOf(t *testing.T, c *clusterv3.Cluster) *upstreamv3.HttpProtocolOptions {
	t.Helper()
	out := &upstreamv3.HttpProtocolOptions{}
	if packed := c.TypedExtensionProtocolOptions[httpOptionsKey]; packed != nil {
		if err := packed.UnmarshalTo(out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
