package agent

import (
	"net/http"
	"strings"
	"testing"
)

// The filters of a listener that refuse requests by themselves, each at a path of its own.
const refusing = `"http_filters": [
	{"name": "rbac", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC", "rules": {"action": "DENY", "policies": {
		"ns[default]-policy[nobody]-rule[0]": {"permissions": [{"url_path": {"path": {"prefix": "/denied"}}}], "principals": [{"any": true}]}}}}},
	{"name": "jwt", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
		"providers": {"p": {"issuer": "i", "local_jwks": {"inline_string": "{\"keys\": [{\"kty\": \"oct\", \"k\": \"c2VjcmV0\", \"alg\": \"HS256\"}]}"}}},
		"rules": [{"match": {"prefix": "/token"}, "requires": {"provider_name": "p"}}]}},
	{"name": "limit", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit", "stat_prefix": "http_local_rate_limiter"}},
	{"name": "authz", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", "transport_api_version": "V3",
		"http_service": {"server_uri": {"uri": "http://dead", "cluster": "dead", "timeout": "1s"}}}},
	{"name": "router"`

// Their settings of routes: the external server is asked at one path alone, and another one has a limit of one request.
const refused = `"domains": ["*"], "typed_per_filter_config": {"authz": {"@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": true}}, "routes": [
	{"match": {"prefix": "/asked"}, "direct_response": {"status": 200}, "typed_per_filter_config": {"authz": {
		"@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "check_settings": {}}}},
	{"match": {"prefix": "/limited"}, "direct_response": {"status": 200}, "typed_per_filter_config": {"limit": {
		"@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit", "stat_prefix": "http_local_rate_limiter",
		"token_bucket": {"max_tokens": 1, "tokens_per_fill": 1, "fill_interval": "600s"},
		"filter_enabled": {"default_value": {"numerator": 100}}, "filter_enforced": {"default_value": {"numerator": 100}}}}},
	{"match": {"prefix": "/denied"}, "direct_response": {"status": 200}}, {"match": {"prefix": "/token"}, "direct_response": {"status": 200}}, `

// What filters refuse is told by counters and by records, of a real Envoy: policies, tokens, external authorization, limits.
func TestWhyNamesWhatFiltersRefuse(t *testing.T) {
	t.Parallel()
	log := documented(t, "**Failed requests.**")
	log = strings.Replace(log, `{"response_flag_filter": {}},`, `{"response_flag_filter": {}}, {"grpc_status_filter": {"statuses": ["UNAUTHENTICATED", "PERMISSION_DENIED"]}},`, 1)
	f := startFailingWith(t, func(text string) string {
		text = strings.Replace(text, `"http_filters": [{"name": "router"`, log+`, `+refusing, 1)
		return strings.Replace(text, `"domains": ["*"], "routes": [`, refused, 1)
	})
	for _, step := range []struct {
		path string
		kind string // of its body
		want int
	}{
		{"/denied", "", http.StatusForbidden},
		{"/token", "", http.StatusUnauthorized},
		{"/denied/grpc", "application/grpc", http.StatusOK},
		{"/token/grpc", "application/grpc", http.StatusOK},
		{"/asked", "", http.StatusForbidden},
		{"/limited", "", http.StatusOK},
		{"/limited", "", http.StatusTooManyRequests},
	} {
		if got := f.send(step.path, step.kind); got != step.want {
			t.Errorf("%s: status %d, want %d", step.path, got, step.want)
		}
	}
	f.awaitWhy(
		"2 requests at routes: a policy does not allow it (403)", "2 requests at routes: its token is missing, expired or of another issuer (401)",
		"UAEX 1 request at routes: the external authorization server did not answer",
		"RL   1 request at http_local_rate_limiter: the local rate limit is used up (429)",
		"403 -", "/denied of ", ": a policy does not allow it (rbac_access_denied_matched_policy[ns[default]-policy[nobody]-rule[0]])",
		"401 -", "/token of ", ": its token is missing, expired or of another issuer (jwt_authn_access_denied{Jwt_is_missing})",
		"200 -", "/denied/grpc of ", ": a policy does not allow it (rbac_access_denied_matched_policy[ns[default]-policy[nobody]-rule[0]])",
		"200 -", "/token/grpc of ", ": its token is missing, expired or of another issuer (jwt_authn_access_denied{Jwt_is_missing})",
		"403 UAEX", "/asked of ", ": the external authorization server refused it, or did not answer",
		"429 RL", "/limited of ", ": the rate limit is used up",
	)
}
