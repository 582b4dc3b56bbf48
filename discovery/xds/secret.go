package xds

import (
	"iter"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// SecretNames returns the names of the secrets that the resources fetch over ADS, sorted: the credentials of Gateways
// that select the proxy, and of DestinationRules that apply to it.
func SecretNames(all ...*Resources) (names []string) {
	for _, r := range all {
		for socket := range r.sockets() {
			for _, s := range secretsOf(socket) {
				if s.GetSdsConfig().GetAds() != nil {
					names = append(names, s.GetName())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sockets yields all transport sockets; nil for unencrypted connections.
func (r *Resources) sockets() iter.Seq[*corev3.TransportSocket] {
	return func(yield func(*corev3.TransportSocket) bool) {
		for _, c := range r.Clusters {
			if !yield(c.TransportSocket) {
				return
			}
			for _, m := range c.TransportSocketMatches {
				if !yield(m.TransportSocket) {
					return
				}
			}
		}
		for _, l := range r.Listeners {
			if !yield(l.GetDefaultFilterChain().GetTransportSocket()) {
				return
			}
			for _, c := range l.FilterChains {
				if !yield(c.TransportSocket) {
					return
				}
			}
		}
	}
}

func secretsOf(socket *corev3.TransportSocket) []*tlsv3.SdsSecretConfig {
	config := socket.GetTypedConfig()
	if config == nil {
		return nil
	}
	message, err := config.UnmarshalNew()
	if err != nil {
		return nil // a type in which Envoy finds no secrets
	}
	tls, ok := message.(interface {
		GetCommonTlsContext() *tlsv3.CommonTlsContext
	})
	if !ok {
		return nil
	}
	common := tls.GetCommonTlsContext()
	return append(slices.Clone(common.GetTlsCertificateSdsSecretConfigs()),
		common.GetValidationContextSdsSecretConfig(),
		common.GetCombinedValidationContext().GetValidationContextSdsSecretConfig())
}
