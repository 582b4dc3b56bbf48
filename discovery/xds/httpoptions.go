package xds

import (
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

const httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// httpOptions defines the HTTP protocol between Envoy and a cluster's endpoints.
type httpOptions struct {
	http2, client bool // HTTP/2, or the protocol of the client; else HTTP/1.1
	pool          *networking.ConnectionPoolSettings_HTTPSettings
	maxDuration   *durationpb.Duration
	autoSNI       bool // the SNI of the handshake is the request's host
	autoSAN       bool // the server's certificate must be valid for the request's host
}

// explicitHTTP2 reports whether Envoy uses HTTP/2 to the endpoints for every protocol of the client.
func (o httpOptions) explicitHTTP2() bool { return o.http2 && !o.client }

func setHTTPOptions(c *clusterv3.Cluster, o httpOptions) {
	out := &upstreamv3.HttpProtocolOptions{CommonHttpProtocolOptions: o.connection()}
	if o.autoSNI {
		out.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{AutoSni: true, AutoSanValidation: o.autoSAN}
	}
	if !o.http2 && !o.client && out.CommonHttpProtocolOptions == nil && !o.autoSNI {
		return // Envoy's default is HTTP/1.1
	}
	http2 := &corev3.Http2ProtocolOptions{}
	if n := o.pool.GetMaxConcurrentStreams(); n > 0 {
		http2.MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
	}
	if k := o.pool.GetHttp2KeepAlive(); k != nil {
		http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.Interval, Timeout: k.Timeout}
	}
	switch {
	case o.client:
		out.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &upstreamv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{}, Http2ProtocolOptions: http2,
			},
		}
	case o.http2:
		out.UpstreamProtocolOptions = explicit(&upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: http2},
		})
	default:
		out.UpstreamProtocolOptions = explicit(&upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
				HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
			},
		})
	}
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: pack(out)}
}

func explicit(config *upstreamv3.HttpProtocolOptions_ExplicitHttpConfig) *upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_ {
	return &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: config}
}

// connection returns the options of each connection, or nil for Envoy's defaults.
func (o httpOptions) connection() *corev3.HttpProtocolOptions {
	out := &corev3.HttpProtocolOptions{IdleTimeout: o.pool.GetIdleTimeout(), MaxConnectionDuration: o.maxDuration}
	if n := o.pool.GetMaxRequestsPerConnection(); n > 0 {
		out.MaxRequestsPerConnection = wrapperspb.UInt32(uint32(min(n, math.MaxInt32)))
	}
	if out.IdleTimeout == nil && out.MaxConnectionDuration == nil && out.MaxRequestsPerConnection == nil {
		return nil
	}
	return out
}
