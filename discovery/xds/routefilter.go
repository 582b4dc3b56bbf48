package xds

//lint:file-ignore SA1019 what Istio deprecates is read all the same: files still have it

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Parts of a route that change requests, other than their destination.

const (
	corsFilter         = "envoy.filters.http.cors"
	faultFilter        = "envoy.filters.http.fault"
	previousHosts      = "envoy.retry_host_predicates.previous_hosts"
	previousPriorities = "envoy.retry_priorities.previous_priorities"
	// retryOn retries requests that did not reach the server (connect-failure, refused-stream), and gRPC requests that
	// were answered UNAVAILABLE or CANCELLED. retriable-status-codes needs a list of codes.
	retryOn         = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
	retries         = 2
	retryHostsTried = 5
)

// retry returns the retry policy of in, or that of MeshConfig if in is nil; unset fields have Istio's defaults. It
// returns nil if retries are disabled. With consistent hashing, every attempt goes to the same endpoint, so previous
// hosts are not avoided unless the policy sets it.
func (r router) retry(in *networking.HTTPRetry, hash []*routev3.RouteAction_HashPolicy) *routev3.RetryPolicy {
	if in == nil {
		in = r.scope.Settings().Config.GetDefaultHttpRetryPolicy()
	}
	if in != nil && in.Attempts <= 0 {
		return nil
	}
	out := &routev3.RetryPolicy{
		RetryOn: retryOn, NumRetries: wrapperspb.UInt32(retries),
		PerTryTimeout: in.GetPerTryTimeout(),
	}
	if in != nil {
		out.NumRetries = wrapperspb.UInt32(uint32(in.Attempts))
	}
	if in.GetRetryOn() != "" {
		out.RetryOn, out.RetriableStatusCodes = retryConditions(in.RetryOn)
	}
	if in.GetBackoff() != nil {
		out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: in.Backoff}
	}
	ignore := in.GetRetryIgnorePreviousHosts()
	if ignore == nil && hash == nil || ignore.GetValue() {
		out.RetryHostPredicate = []*routev3.RetryPolicy_RetryHostPredicate{{
			Name: previousHosts,
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: pack(&previoushostsv3.PreviousHostsPredicate{}),
			},
		}}
		out.HostSelectionRetryMaxAttempts = retryHostsTried
	}
	if in.GetRetryRemoteLocalities().GetValue() {
		out.RetryPriority = &routev3.RetryPolicy_RetryPriority{
			Name: previousPriorities,
			ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
				TypedConfig: pack(&prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 2}),
			},
		}
	}
	return out
}

// retryConditions separates the status codes from the other conditions of a list.
func retryConditions(list string) (on string, codes []uint32) {
	var conditions []string
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if code, err := strconv.Atoi(part); err == nil {
			codes = append(codes, uint32(code))
		} else if part != "" {
			conditions = append(conditions, part)
		}
	}
	if len(codes) > 0 && !slices.Contains(conditions, "retriable-status-codes") {
		conditions = append(conditions, "retriable-status-codes")
	}
	return strings.Join(conditions, ","), codes
}

// mirrors returns the destinations of mirrored requests. Mirrored requests keep their host.
func (r router) mirrors(in *networking.HTTPRoute) []*routev3.RouteAction_RequestMirrorPolicy {
	policy := func(d *networking.Destination, percent float64) *routev3.RouteAction_RequestMirrorPolicy {
		return &routev3.RouteAction_RequestMirrorPolicy{
			Cluster:                       r.clusterOf(d),
			RuntimeFraction:               &corev3.RuntimeFractionalPercent{DefaultValue: fraction(percent)},
			DisableShadowHostSuffixAppend: true,
		}
	}
	if in.Mirror != nil {
		percent := 100.0
		switch {
		case in.MirrorPercentage != nil:
			percent = in.MirrorPercentage.Value
		case in.MirrorPercent != nil:
			percent = float64(in.MirrorPercent.Value)
		}
		if percent <= 0 {
			return nil
		}
		return []*routev3.RouteAction_RequestMirrorPolicy{policy(in.Mirror, percent)}
	}
	var out []*routev3.RouteAction_RequestMirrorPolicy
	for _, m := range in.Mirrors {
		percent := 100.0
		if m.Percentage != nil {
			percent = m.Percentage.Value
		}
		if percent > 0 {
			out = append(out, policy(m.Destination, percent))
		}
	}
	return out
}

// fault returns nil if the fault would affect no requests, as without a percentage.
func fault(in *networking.HTTPFaultInjection) *faultv3.HTTPFault {
	out := &faultv3.HTTPFault{}
	if d := in.GetDelay(); d.GetFixedDelay() != nil {
		percent := d.GetPercentage().GetValue()
		if d.Percentage == nil {
			percent = float64(d.Percent)
		}
		if percent > 0 {
			out.Delay = &commonfaultv3.FaultDelay{
				FaultDelaySecifier: &commonfaultv3.FaultDelay_FixedDelay{FixedDelay: d.GetFixedDelay()},
				Percentage:         fraction(percent),
			}
		}
	}
	if a := in.GetAbort(); a.GetPercentage().GetValue() > 0 {
		abort := &faultv3.FaultAbort{Percentage: fraction(a.Percentage.Value)}
		switch e := a.ErrorType.(type) {
		case *networking.HTTPFaultInjection_Abort_HttpStatus:
			abort.ErrorType = &faultv3.FaultAbort_HttpStatus{HttpStatus: uint32(e.HttpStatus)}
		case *networking.HTTPFaultInjection_Abort_GrpcStatus:
			abort.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: grpcStatus(e.GrpcStatus)}
		}
		if abort.ErrorType != nil {
			out.Abort = abort
		}
	}
	if out.Delay == nil && out.Abort == nil {
		return nil
	}
	return out
}

// grpcStatus parses a status, by the name or number that gRPC defines.
func grpcStatus(s string) uint32 {
	if n, err := strconv.Atoi(s); err == nil {
		return uint32(n)
	}
	names := []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
	return uint32(max(slices.Index(names, strings.ToUpper(s)), 0))
}

// fraction converts percent to Envoy's finest unit.
func fraction(percent float64) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{
		Numerator: uint32(min(percent, 100) * 10_000), Denominator: typev3.FractionalPercent_MILLION,
	}
}

func cors(in *networking.CorsPolicy) *corsv3.CorsPolicy {
	if in == nil {
		return nil
	}
	out := &corsv3.CorsPolicy{
		AllowMethods: strings.Join(in.AllowMethods, ","), AllowHeaders: strings.Join(in.AllowHeaders, ","),
		ExposeHeaders: strings.Join(in.ExposeHeaders, ","), AllowCredentials: in.AllowCredentials,
		FilterEnabled: &corev3.RuntimeFractionalPercent{DefaultValue: fraction(100)},
		// The workload answers preflights that do not match the policy, unless the policy forbids it.
		ForwardNotMatchingPreflights: wrapperspb.Bool(in.UnmatchedPreflights != networking.CorsPolicy_IGNORE),
	}
	if in.MaxAge != nil {
		out.MaxAge = strconv.FormatInt(in.MaxAge.Seconds, 10)
	}
	for _, origin := range in.AllowOrigins {
		if m := stringMatcher(origin); m != nil {
			out.AllowOriginStringMatch = append(out.AllowOriginStringMatch, m)
		}
	}
	for _, origin := range in.AllowOrigin {
		out.AllowOriginStringMatch = append(out.AllowOriginStringMatch, exactly(origin))
	}
	return out
}

// setHeaders adds the header operations of in to a route.
func setHeaders(out *routev3.Route, in *networking.Headers) {
	request, response := in.GetRequest(), in.GetResponse()
	out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, headerOptions(request)...)
	out.RequestHeadersToRemove = append(out.RequestHeadersToRemove, removed(request)...)
	out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, headerOptions(response)...)
	out.ResponseHeadersToRemove = append(out.ResponseHeadersToRemove, removed(response)...)
}

func headerOptions(in *networking.Headers_HeaderOperations) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	add := func(headers map[string]string, action corev3.HeaderValueOption_HeaderAppendAction) {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			if !isHost(name) && model.ForeignCommand(headers[name]) == "" {
				out = append(out, &corev3.HeaderValueOption{
					Header: &corev3.HeaderValue{Key: name, Value: headers[name]}, AppendAction: action,
					KeepEmptyValue: true,
				})
			}
		}
	}
	add(in.GetSet(), corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	add(in.GetAdd(), corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	return out
}

func removed(in *networking.Headers_HeaderOperations) []string {
	return slices.DeleteFunc(slices.Clone(in.GetRemove()), isHost)
}

// hostOf returns the host that header operations set: Envoy sets it by a host rewrite, and rejects header operations on
// it. If both :authority and host are set, host is used: it sorts last.
func hostOf(in *networking.Headers) (host string) {
	set := in.GetRequest().GetSet()
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if isHost(name) {
			host = set[name]
		}
	}
	return host
}

func isHost(name string) bool {
	return strings.EqualFold(name, "host") || strings.EqualFold(name, ":authority")
}
