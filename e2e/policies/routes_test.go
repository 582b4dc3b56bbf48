package policies

import (
	"fmt"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A gateway chooses routes by the claims of a sound token, and takes no claim from anything else.
func TestRoutesByClaims(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.Service("staff.test", m.Backend("staff"))
	m.Service("team.test", m.Backend("team"))
	m.Service("known.test", m.Backend("known"))
	m.GatewayEnvoy("gw")
	one, stranger := lab.NewIssuer(t, "one.test"), lab.NewIssuer(t, "one.test")
	m.authentication("all", fmt.Sprintf(`{jwtRules: [{issuer: one.test, jwks: '%s', fromHeaders: [{name: x-token}]}]}`, one.Keys()))
	m.ask("a stranger's", 401, "/", "x-token", stranger.Token(t, nil))
	m.Apply("VirtualService app", `
		hosts: ["*"]
		gateways: [gw]
		http:
		- {match: [{headers: {"@request.auth.claims.groups": {exact: staff}}}, {headers: {"@request.auth.claims[a.b][c]": {prefix: st}}}], route: [{destination: {host: staff.test}}]}
		- {match: [{headers: {"@request.auth.claims.org.team": {regex: "t[0-9]+"}}}], route: [{destination: {host: team.test}}]}
		- {match: [{headers: {"@request.auth.claims.sub": {}}, withoutHeaders: {"@request.auth.claims.sub": {exact: thief}}}], route: [{destination: {host: known.test}}]}
		- {route: [{destination: {host: app.test}}]}`)
	type claims = map[string]any
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		a := m.ask("known", 200, "/", "x-token", one.Token(t, nil))
		if a.Echo.Backend != "known" {
			return fmt.Errorf("%s answers", a.Echo.Backend)
		}
		return nil
	}))
	for what, test := range map[string]struct {
		token, want string
	}{
		"no token":          {"", "app"},
		"a group":           {one.Token(t, claims{"groups": "staff"}), "staff"},
		"one of a list":     {one.Token(t, claims{"groups": []string{"a", "staff"}}), "staff"},
		"a longer group":    {one.Token(t, claims{"groups": "staffer"}), "known"},
		"names with dots":   {one.Token(t, claims{"a.b": claims{"c": "steward"}}), "staff"},
		"within":            {one.Token(t, claims{"org": claims{"team": "t42"}}), "team"},
		"not the whole":     {one.Token(t, claims{"org": claims{"team": "t42x"}}), "known"},
		"without the claim": {one.Token(t, claims{"sub": "thief"}), "app"},
	} {
		header := []string{"x-groups", "staff"}
		if test.token != "" {
			header = append(header, "x-token", test.token)
		}
		if a := m.ask(what, 200, "/", header...); a.Echo.Backend != test.want {
			t.Errorf("%s: %s answers, want %s", what, a.Echo.Backend, test.want)
		}
	}
	m.ask("a stranger's", 401, "/", "x-token", stranger.Token(t, claims{"groups": "staff"}))
}
