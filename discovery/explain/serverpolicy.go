package explain

import (
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
)

// filters takes a call through the filters of a server's chain.
func (a *arrival) filters(chain *listenerv3.FilterChain, s Server, c call, bytes bool) {
	for _, f := range chain.Filters {
		switch m := unpack(f.GetTypedConfig()).(type) {
		case *tcprbacv3.RBAC:
			if a.policy(s, m.Rules, c) {
				a.refuse(503, "UC", a.end.Reason, c.Request)
				return
			}
		case *hcmv3.HttpConnectionManager:
			if bytes {
				a.end.Reason = "the server's proxy closes the connection: it wants HTTP"
				return
			}
			a.requests(m, s, c)
			return
		}
	}
}

// requests takes a call through the HTTP filters of a server.
func (a *arrival) requests(m *hcmv3.HttpConnectionManager, s Server, c call) {
	for _, f := range m.HttpFilters {
		switch p := unpack(f.GetTypedConfig()).(type) {
		case *jwtv3.JwtAuthentication:
			if c.token = carriesToken(p, c); c.token {
				a.steps = append(a.steps, Step{Kind: "server policy", Name: f.Name, Text: "the request has a token, which explain does not check"})
				a.unless = append(a.unless, f.Name)
			}
		case *httprbacv3.RBAC:
			if a.policy(s, p.Rules, c) {
				a.end.Status, a.end.By = 403, "the server's proxy"
				return
			}
		}
	}
}

// policy adds what a filter of policies says, and reports whether it refuses.
func (a *arrival) policy(s Server, r *rbacv3.RBAC, c call) bool {
	refuses, name, passed, unjudged := refused(r, c)
	for i := range passed {
		passed[i].Origins = s.Origins(Part{Policy: passed[i].Name})
	}
	step := Step{Kind: "server policy", Name: name, Passed: passed}
	if name != "" {
		step.Origins = s.Origins(Part{Policy: name})
	}
	switch {
	case refuses && name != "":
		step.Text = "denies it"
		a.end.Reason = "denied by " + name + by(step.Origins)
	case refuses:
		step.Text = "none allows it"
		a.end.Reason = "no policy of the server allows it"
	case name != "":
		step.Text = "allows it"
	case len(unjudged) > 0:
		step.Name, step.Text = strings.Join(unjudged, ", "), "explain does not judge it"
		a.unless = append(a.unless, unjudged...)
	case len(passed) == 0:
		return false
	default:
		step.Text = "none denies it"
	}
	a.steps = append(a.steps, step)
	return refuses
}

// carriesToken reports whether a request has something at a place of tokens.
func carriesToken(p *jwtv3.JwtAuthentication, c call) bool {
	for _, provider := range p.Providers {
		places := provider.FromHeaders
		if len(places)+len(provider.FromParams)+len(provider.FromCookies) == 0 {
			places = []*jwtv3.JwtHeader{{Name: "authorization", ValuePrefix: "Bearer "}}
			if _, found := c.query("access_token"); found {
				return true
			}
		}
		for _, h := range places {
			if value, found := c.header(h.Name); found && strings.HasPrefix(value, h.ValuePrefix) {
				return true
			}
		}
		for _, name := range provider.FromParams {
			if _, found := c.query(name); found {
				return true
			}
		}
		if _, found := c.header("cookie"); found && len(provider.FromCookies) > 0 {
			return true
		}
	}
	return false
}
