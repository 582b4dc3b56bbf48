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
				a.end.Status, a.end.By, a.end.Reason = 400, "the server's proxy", "it wants HTTP, and closes the connection"
				return
			}
			a.requests(m, s, c)
			return
		}
	}
}

// requests takes a call through the HTTP filters of a server.
func (a *arrival) requests(m *hcmv3.HttpConnectionManager, s Server, c call) {
	c.Path = pathAt(m, c.Path)
	for _, f := range m.HttpFilters {
		switch p := unpack(f.GetTypedConfig()).(type) {
		case *jwtv3.JwtAuthentication:
			said := authenticate(p, c.Request)
			if said.text != "" {
				a.steps = append(a.steps, Step{Kind: "server policy", Name: f.Name, Text: said.text, Unmade: notTraced})
			}
			if said.status != 0 {
				a.end.Status, a.end.By, a.end.Reason = said.status, "the server's proxy", said.text
				return
			}
			if c.token = said.token; said.unless != "" {
				a.unless = append(a.unless, said.unless)
			}
		case *httprbacv3.RBAC:
			if a.policy(s, p.Rules, c) {
				a.end.Status, a.end.By = 403, "the server's proxy"
				return
			}
		default:
			if strings.HasPrefix(f.Name, "envoy.filters.http.ext_authz") {
				a.unless = append(a.unless, f.Name)
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
	step, reason := verdictOf(refuses, name, s.Origins, passed, unjudged, "server")
	if refuses {
		a.end.Reason = reason
	}
	if step.Text == "" {
		return false
	}
	a.unless = append(a.unless, unjudged...)
	a.steps = append(a.steps, step)
	return refuses
}
