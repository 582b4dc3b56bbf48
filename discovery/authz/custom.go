package authz

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Authorizer is a provider of MeshConfig, of HTTP or gRPC, that is asked about requests; the cluster leads to it.
type Authorizer struct {
	Provider *meshconfig.MeshConfig_ExtensionProvider
	Cluster  string
}

// Names of Envoy's filters, and of what the first filter of a pair tells the second, which are Istio's.
const (
	httpAuthorizer = "envoy.filters.http.ext_authz"
	tcpAuthorizer  = "envoy.filters.network.ext_authz"
	customStats    = "istio_ext_authz_"
	customResult   = customStats + "shadow_effective_policy_id"
	customRules    = "istio-ext-authz-"
	customTimeout  = 600 * time.Second
)

// custom returns the filters of CUSTOM policies. A pair for requests, and one for connections: the first finds out, by
// rules that it does not enforce, whether a policy names the request, and the second then asks the provider. Where
// there is no provider to ask, or more than one, what the policies name is denied.
//
// A provider of HTTP is not asked about connections: those that a rule names without a condition of HTTP are denied.
// Where HTTP is detected, what is not may still be a request of HTTP to the workload: there rules with such a condition
// deny.
func custom(policies []model.Policy, at Proxy) (g Guard) {
	known := at.Authorizers
	var of []model.Policy
	names := map[string]bool{}
	for _, p := range policies {
		if p.Tokens == nil && p.Spec.GetAction() == security.AuthorizationPolicy_CUSTOM && !p.DryRun {
			of = append(of, p)
			names[p.Spec.GetProvider().GetName()] = true
		}
	}
	if len(of) == 0 {
		return g
	}
	asked := slices.IndexFunc(known, func(a Authorizer) bool { return len(names) == 1 && names[a.Provider.GetName()] })
	r := rules{domains: at.TrustDomains}
	requests, _ := r.both(of, rbacv3.RBAC_DENY)
	r.tcp, r.requests = true, asked >= 0 && known[asked].Provider.GetEnvoyExtAuthzHttp() != nil
	connections, _ := r.both(of, rbacv3.RBAC_DENY)
	denial := Filter{tcpFilter, pack(&tcprbacv3.RBAC{Rules: connections, StatPrefix: tcpStats})}
	if asked < 0 {
		return Guard{HTTP: []Filter{{httpFilter, pack(&httprbacv3.RBAC{Rules: requests})}}, TCP: []Filter{denial}}
	}
	unseen, _ := rules{domains: at.TrustDomains, tcp: true, ofHTTP: true}.both(of, rbacv3.RBAC_DENY)
	if len(unseen.GetPolicies()) > 0 {
		g.Undetected = []Filter{{tcpFilter, pack(&tcprbacv3.RBAC{Rules: unseen, StatPrefix: tcpStats})}}
	}
	a := known[asked]
	prefix := customRules + a.Provider.GetName() + "-"
	g.HTTP = []Filter{
		{httpFilter, pack(&httprbacv3.RBAC{ShadowRules: named(requests, prefix), ShadowRulesStatPrefix: customStats})},
		{httpAuthorizer, pack(a.ofRequests(prefix))},
	}
	if r.requests {
		g.TCP = []Filter{denial}
		return g
	}
	g.TCP = []Filter{
		{tcpFilter, pack(&tcprbacv3.RBAC{ShadowRules: named(connections, prefix), ShadowRulesStatPrefix: customStats, StatPrefix: tcpStats})},
		{tcpAuthorizer, pack(a.ofConnections(prefix))},
	}
	return g
}

// named puts a prefix before the names of rules.
func named(rules *rbacv3.RBAC, prefix string) *rbacv3.RBAC {
	out := &rbacv3.RBAC{Action: rules.Action, Policies: map[string]*rbacv3.Policy{}}
	for name, rule := range rules.Policies {
		out.Policies[prefix+name] = rule
	}
	return out
}

// ruled matches what the filter before has found to be named by a rule.
func ruled(filter, prefix string) *matcherv3.MetadataMatcher {
	return metadata(filter, []string{customResult}, textValue(&matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix},
	})).MetadataMatcher
}

func (a Authorizer) ofRequests(prefix string) *httpauthzv3.ExtAuthz {
	h, g := a.Provider.GetEnvoyExtAuthzHttp(), a.Provider.GetEnvoyExtAuthzGrpc()
	status, _ := model.ParseErrorStatus(cmp.Or(h.GetStatusOnError(), g.GetStatusOnError()))
	out := &httpauthzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: ruled(httpFilter, prefix),
		StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode(status)},
		FailureModeAllow: h.GetFailOpen() || g.GetFailOpen(), ClearRouteCache: h.GetClearRouteCache() || g.GetClearRouteCache(),
	}
	body := cmp.Or(h.GetIncludeRequestBodyInCheck(), g.GetIncludeRequestBodyInCheck())
	if body != nil {
		out.WithRequestBody = &httpauthzv3.BufferSettings{
			MaxRequestBytes: body.MaxRequestBytes, AllowPartialMessage: body.AllowPartialMessage, PackAsBytes: body.PackAsBytes,
		}
	}
	if g != nil {
		out.Services = &httpauthzv3.ExtAuthz_GrpcService{GrpcService: a.grpc()}
		return out
	}
	older := h.IncludeHeadersInCheck //lint:ignore SA1019 it is the older name of the same
	out.AllowedHeaders = cmp.Or(headers(h.IncludeRequestHeadersInCheck), headers(older))
	service := &httpauthzv3.HttpService{
		PathPrefix: h.PathPrefix,
		ServerUri: &corev3.HttpUri{
			Uri: "http://" + host(h.Service), Timeout: timeout(h.Timeout), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: a.Cluster},
		},
		AuthorizationResponse: &httpauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders:        headers(h.HeadersToUpstreamOnAllow),
			AllowedClientHeaders:          headers(h.HeadersToDownstreamOnDeny),
			AllowedClientHeadersOnSuccess: headers(h.HeadersToDownstreamOnAllow),
		},
	}
	if further := h.IncludeAdditionalHeadersInCheck; len(further) > 0 {
		service.AuthorizationRequest = &httpauthzv3.AuthorizationRequest{}
		for _, name := range slices.Sorted(maps.Keys(further)) {
			service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd, &corev3.HeaderValue{Key: name, Value: further[name]})
		}
	}
	out.Services = &httpauthzv3.ExtAuthz_HttpService{HttpService: service}
	return out
}

func (a Authorizer) ofConnections(prefix string) *tcpauthzv3.ExtAuthz {
	return &tcpauthzv3.ExtAuthz{
		StatPrefix: tcpStats, TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: ruled(tcpFilter, prefix),
		FailureModeAllow: a.Provider.GetEnvoyExtAuthzGrpc().GetFailOpen(), GrpcService: a.grpc(),
	}
}

func (a Authorizer) grpc() *corev3.GrpcService {
	g := a.Provider.GetEnvoyExtAuthzGrpc()
	return &corev3.GrpcService{Timeout: timeout(g.Timeout), TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: a.Cluster, Authority: host(g.Service)},
	}}
}

// host returns the name of [NAMESPACE/]HOST.
func host(service string) string { return service[strings.IndexByte(service, '/')+1:] }

func timeout(given *durationpb.Duration) *durationpb.Duration {
	return cmp.Or(given, durationpb.New(customTimeout))
}

// headers matches names: X, the prefix X*, the suffix *X.
func headers(names []string) *matcherv3.ListStringMatcher {
	if len(names) == 0 {
		return nil
	}
	out := &matcherv3.ListStringMatcher{}
	for _, name := range names {
		m := text(name)
		m.IgnoreCase = m.GetSafeRegex() == nil
		out.Patterns = append(out.Patterns, m)
	}
	return out
}
