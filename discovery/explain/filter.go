package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// passing are the filters that neither answer a plain request nor send it elsewhere.
var passing = []string{"envoy.filters.http.grpc_web", "envoy.filters.http.dynamic_forward_proxy", "envoy.filters.http.router"}

// filters takes the request through the HTTP filters, in their order, to the action of the route. left is the share of requests
// that no filter has answered.
func (j *judge) filters(m *hcmv3.HttpConnectionManager, host *routev3.VirtualHost, route *routev3.Route, r Request) {
	left := 1.0
	for _, f := range m.HttpFilters {
		own := unpack(cmp.Or(route.TypedPerFilterConfig[f.Name], host.TypedPerFilterConfig[f.Name]))
		switch config := own.(type) {
		case *faultv3.HTTPFault:
			left -= j.fault(config, left)
		case *corsv3.CorsPolicy:
			if j.preflight(config, r, left) {
				return
			}
		default:
			judged, refuses := j.guard(f.Name, unpack(f.GetTypedConfig()), r, left)
			if refuses {
				return
			}
			if judged {
				continue
			}
			if !slices.Contains(passing, f.Name) && !isEmpty(f, own) {
				j.skip(f.Name)
			}
		}
	}
	if left > 0 {
		j.action(route, left, r)
	}
}

// isEmpty reports whether a filter does nothing without a configuration of the route, and the route has none.
func isEmpty(f *hcmv3.HttpFilter, own proto.Message) bool {
	if own != nil {
		return false
	}
	switch unpack(f.GetTypedConfig()).(type) {
	case *faultv3.HTTPFault, *corsv3.Cors:
		return true
	}
	return false
}

// fault adds what an injected fault does with left of the requests, and returns the share that it answers.
func (j *judge) fault(f *faultv3.HTTPFault, left float64) float64 {
	if d := f.Delay; d != nil && share(d.Percentage) > 0 {
		j.delay = &Delay{share(d.Percentage), durationOf(d.GetFixedDelay())}
		j.pass(Step{Kind: "filter", Name: "fault", Text: fmt.Sprintf("%s of requests wait %s", percent(share(d.Percentage)), duration(d.GetFixedDelay()))}, j.route)
	}
	a := f.Abort
	if a == nil || share(a.Percentage) == 0 {
		return 0
	}
	status := int(a.GetHttpStatus())
	if status == 0 {
		status = ofGRPC(a.GetGrpcStatus())
	}
	aborted := left * share(a.Percentage)
	j.pass(Step{Kind: "filter", Name: "fault", Text: fmt.Sprintf("%s of requests are answered %d", percent(share(a.Percentage)), status)}, j.route)
	o := Outcome{Share: aborted, Status: status, Flag: "FI", Reason: "a fault is injected"}
	if _, ok := a.ErrorType.(*faultv3.FaultAbort_GrpcStatus); ok && j.grpc {
		o.GRPC = fmt.Sprint(a.GetGrpcStatus())
	}
	j.end(o)
	return aborted
}

// preflight reports whether the proxy itself answers: the request asks for the permission of another origin, which has it.
func (j *judge) preflight(c *corsv3.CorsPolicy, r Request, left float64) bool {
	origin, crosses := r.header("origin")
	_, asks := r.header("access-control-request-method")
	if !crosses || !asks || r.Method != "OPTIONS" {
		return false
	}
	for _, m := range c.AllowOriginStringMatch {
		if matches(m, origin) {
			j.pass(Step{Kind: "filter", Name: "cors", Text: "the origin " + origin + " is allowed"}, j.route)
			j.grpc = false // the answer has no body, and no error
			j.end(Outcome{Share: left, Status: 200, Reason: "the proxy answers the preflight request"})
			return true
		}
	}
	j.pass(Step{Kind: "filter", Name: "cors", Text: "the origin " + origin + " is not allowed: the server answers"}, j.route)
	return false
}

// share returns a part of one.
func share(p *typev3.FractionalPercent) float64 {
	if p == nil {
		return 0
	}
	of := map[typev3.FractionalPercent_DenominatorType]float64{
		typev3.FractionalPercent_HUNDRED: 1e2, typev3.FractionalPercent_TEN_THOUSAND: 1e4, typev3.FractionalPercent_MILLION: 1e6,
	}[p.Denominator]
	return min(float64(p.Numerator)/of, 1)
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", share*100) }

func duration(d *durationpb.Duration) string { return d.AsDuration().String() }

// toGRPC returns the status of gRPC that Envoy answers instead of an HTTP status.
func toGRPC(status int) string {
	known := map[int]int{400: 13, 401: 16, 403: 7, 404: 12, 429: 14, 502: 14, 503: 14, 504: 14}
	return fmt.Sprint(cmp.Or(known[status], 2))
}

// ofGRPC returns the HTTP status for a status of gRPC.
func ofGRPC(code uint32) int {
	statuses := []int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}
	if int(code) < len(statuses) {
		return statuses[code]
	}
	return 500
}

// guard takes a request through a filter of tokens or policies of a gateway. judged is false for another filter; refuses reports whether the request
// ends there, with left of all.
func (j *judge) guard(name string, config proto.Message, r Request, left float64) (judged, refuses bool) {
	switch p := config.(type) {
	case *jwtv3.JwtAuthentication:
		a := authenticate(p, r)
		if a.text != "" {
			j.step(Step{Kind: "filter", Name: name, Text: a.text, Unmade: notTraced})
		}
		if a.unless != "" {
			j.unjudged = append(j.unjudged, a.unless)
		}
		if a.status != 0 {
			j.end(Outcome{Share: left, Status: a.status, Reason: a.text})
		}
		j.token = a.token
		return true, a.status != 0
	case *httprbacv3.RBAC:
		refuses, by, passed, unjudged := refused(p.Rules, call{Request: r, secure: j.secure, token: j.token})
		for i := range passed {
			passed[i].Origins = j.origins(Part{Policy: passed[i].Name}).By
		}
		step, reason := verdictOf(refuses, by, func(p Part) []Place { return j.origins(p).By }, passed, unjudged, "gateway")
		if step.Text != "" {
			j.step(step)
		}
		j.unjudged = append(j.unjudged, unjudged...)
		if refuses {
			j.end(Outcome{Share: left, Status: 403, Reason: reason})
		}
		return true, refuses
	}
	return false, false
}

// verdictOf says what a filter of policies does, as refused has found it; the text is "" if it has no policy.
func verdictOf(refuses bool, name string, origins func(Part) []Place, passed []Passed, unjudged []string, whose string) (step Step, reason string) {
	step = Step{Kind: whose + " policy", Name: name, Passed: passed}
	if name != "" {
		step.Origins = origins(Part{Policy: name})
	}
	if len(step.Origins) == 0 {
		step.Unmade = "no rule of a policy is met"
	}
	switch {
	case refuses && name != "":
		step.Text, reason = "denies it", "denied by "+name+by(step.Origins)
	case refuses:
		step.Text, reason = "none allows it", "no policy of the "+whose+" allows it"
	case name != "":
		step.Text = "allows it"
	case len(unjudged) > 0:
		step.Name, step.Text = strings.Join(unjudged, ", "), "explain does not judge it"
	case len(passed) > 0:
		step.Text = "none denies it"
	}
	return step, reason
}
