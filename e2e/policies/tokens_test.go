package policies

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// authentication writes a RequestAuthentication, sound or not.
func (m *mesh) authentication(name, spec string) {
	m.T.Helper()
	path := filepath.Join(m.Config, "tokens-"+name+".yaml")
	text := fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: %s}\nspec: %s\n", name, spec)
	m.Check(os.WriteFile(path+"~", []byte(text), 0o644))
	m.Check(os.Rename(path+"~", path))
}

// ask sends one request to the gateway's port of plain text until its status is as wanted.
func (m *mesh) ask(what string, status int, path string, header ...string) lab.Answer {
	m.T.Helper()
	client := lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", m.plain), nil)
	var last lab.Answer
	if err := lab.Eventually(lab.StopLimit, func() (err error) {
		if last, err = lab.Exchange(client, http.MethodGet, "http://gateway.test"+path, header...); err == nil {
			err = lab.Status(status)(last)
		}
		return err
	}); err != nil {
		m.T.Errorf("%s: %v", what, err)
	}
	return last
}

// explains asks discovery what becomes of such a request, which the gateway has answered with a status. It checks no signature and no time: a token with
// such a fault it calls sound, and names what it has not checked.
func (m *mesh) explains(what string, status int, path string, header ...string) {
	m.T.Helper()
	args := []string{"explain", "--httpAddr", m.Discovery.HTTP, "--from", "default/gw", "--to", "gateway.test", "--address", fmt.Sprintf("127.0.0.1:%d", m.plain), "--path", path, "-o", "json"}
	for i := 0; i < len(header); i += 2 {
		args = append(args, "--header", header[i]+":"+header[i+1])
	}
	text, err := exec.CommandContext(m.T.Context(), filepath.Join(m.Bin, "discovery"), args...).Output()
	var road struct {
		Outcomes []struct {
			Status int
			Reason string
			Unless []string
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &road)
	}
	if err != nil || len(road.Outcomes) != 1 {
		m.T.Errorf("%s: explain says %s, %v", what, text, err)
		return
	}
	o := road.Outcomes[0]
	unchecked := status == http.StatusUnauthorized && o.Status == 0 && strings.Contains(fmt.Sprint(o.Unless), "signature and times")
	if (status == http.StatusOK) != (o.Status == 0) && !unchecked || o.Status != 0 && o.Status != status {
		m.T.Errorf("%s: the gateway answers %d, explain says %+v", what, status, o)
	}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Tokens are checked where a rule looks for them, and only there; what is known of a sound one goes to the workload, and
// to the conditions of policies.
func TestTokens(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.GatewayEnvoy("gw")
	one, two, stranger := lab.NewIssuer(t, "one.test"), lab.NewIssuer(t, "https://two.test/a"), lab.NewIssuer(t, "one.test")
	m.ask("before", 200, "/", bearer("nonsense")...)
	m.authentication("all", fmt.Sprintf(`{jwtRules: [
  {issuer: one.test, jwks: '%s', spaceDelimitedClaims: [roles]},
  {issuer: "https://two.test/a", jwks: '%s', audiences: [web], fromHeaders: [{name: x-token, prefix: "T "}], fromParams: [t], fromCookies: [c],
   forwardOriginalToken: true, outputPayloadToHeader: x-payload, outputClaimToHeaders: [{header: x-sub, claim: sub}, {header: x-group, claim: a.b}]}]}`, one.Keys(), two.Keys()))
	m.ask("nonsense", 401, "/", bearer("nonsense")...)
	web := map[string]any{"aud": "web", "a": map[string]any{"b": "c"}}
	for what, test := range map[string]struct {
		status int
		path   string
		header []string
	}{
		"no token":                    {200, "/", nil},
		"a sound one":                 {200, "/", bearer(one.Token(t, nil))},
		"as a parameter":              {200, "/?access_token=" + one.Token(t, nil), nil},
		"an unsound parameter":        {401, "/?access_token=x.y.z", nil},
		"of a stranger's key":         {401, "/", bearer(stranger.Token(t, nil))},
		"of another issuer there":     {401, "/", bearer(two.Token(t, web))},
		"expired":                     {401, "/", bearer(one.Token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))},
		"expired within the skew":     {200, "/", bearer(one.Token(t, map[string]any{"exp": time.Now().Add(-10 * time.Second).Unix()}))},
		"not yet valid":               {401, "/", bearer(one.Token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}))},
		"in its header":               {200, "/", []string{"x-token", "T " + two.Token(t, web)}},
		"in its header, unsound":      {401, "/", []string{"x-token", "T x.y.z"}},
		"for another audience":        {403, "/", []string{"x-token", "T " + two.Token(t, map[string]any{"aud": "shop"})}},
		"in its parameter":            {200, "/?t=" + two.Token(t, web), nil},
		"in its cookie":               {200, "/", []string{"Cookie", "c=" + two.Token(t, web)}},
		"in its cookie, a stranger's": {401, "/", []string{"Cookie", "c=" + stranger.Token(t, web)}},
	} {
		m.ask(what, test.status, test.path, test.header...)
		m.explains(what, test.status, test.path, test.header...)
	}

	got := m.ask("a token that is forwarded", 200, "/", "x-token", "T "+two.Token(t, web), "x-sub", "forged", "x-payload", "forged").Echo.Header
	if got.Get("x-token") == "" || got.Get("x-sub") != "reader" || got.Get("x-group") != "c" || len(got.Values("x-sub")) != 1 {
		t.Errorf("the workload gets %v", got)
	}
	if payload, err := base64.RawURLEncoding.DecodeString(got.Get("x-payload")); err != nil || !strings.Contains(string(payload), `"aud":"web"`) {
		t.Errorf("the workload gets the payload %q, %v", got.Get("x-payload"), err)
	}
	got = m.ask("a token that is not", 200, "/", append(bearer(one.Token(t, nil)), "x-sub", "forged", "x-payload", "forged", "x-group", "forged")...).Echo.Header
	if got.Get("Authorization") != "" || got.Get("x-sub")+got.Get("x-payload")+got.Get("x-group") != "" {
		t.Errorf("the workload gets %v", got)
	}
	got = m.ask("no token, forged claims", 200, "/", "x-sub", "forged", "x-payload", "forged").Echo.Header
	if got.Get("x-sub")+got.Get("x-payload") != "" {
		t.Errorf("the workload gets %v", got)
	}
}

// Conditions of policies see the claims of sound tokens, and of no others.
func TestClaims(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.GatewayEnvoy("gw")
	one, two := lab.NewIssuer(t, "one.test"), lab.NewIssuer(t, "https://two.test/a")
	m.authentication("all", fmt.Sprintf(`{jwtRules: [{issuer: one.test, jwks: '%s', spaceDelimitedClaims: [roles]}, {issuer: "https://two.test/a", jwks: '%s'}]}`,
		one.Keys(), two.Keys()))
	type claims = map[string]any
	reader := one.Token(t, nil)
	for condition, test := range map[string]struct{ allowed, denied []string }{
		`from: [{source: {requestPrincipals: ["one.test/reader"]}}]`: {
			[]string{reader}, []string{"", one.Token(t, claims{"sub": "thief"}), two.Token(t, nil)},
		},
		`from: [{source: {requestPrincipals: ["https://two.test/a/*"]}}]`: {
			[]string{two.Token(t, nil)}, []string{"", reader},
		},
		`from: [{source: {requestPrincipals: ["*"]}}]`: {
			[]string{two.Token(t, nil), reader}, []string{""},
		},
		`from: [{source: {notRequestPrincipals: ["one.test/thief"]}}]`: {
			[]string{"", reader}, []string{one.Token(t, claims{"sub": "thief"})},
		},
		`when: [{key: "request.auth.claims[groups]", values: [admin]}]`: {
			[]string{one.Token(t, claims{"groups": "admin"}), one.Token(t, claims{"groups": []string{"a", "admin"}})},
			[]string{"", reader, one.Token(t, claims{"groups": "administrator"}), one.Token(t, claims{"groups": "a admin"}), one.Token(t, claims{"groups": []any{1, true}})},
		},
		`when: [{key: "request.auth.claims[roles]", values: [admin]}]`: {
			[]string{one.Token(t, claims{"roles": "a admin"})}, []string{"", two.Token(t, claims{"roles": "a admin"})},
		},
		`when: [{key: "request.auth.claims[scope]", values: ["read:*"]}]`: {
			[]string{two.Token(t, claims{"scope": "write read:all"})}, []string{"", two.Token(t, claims{"scope": "write"})},
		},
		`when: [{key: "request.auth.claims[a][b.c]", notValues: [x]}, {key: request.auth.principal, values: ["*"]}]`: {
			[]string{reader, one.Token(t, claims{"a": claims{"b.c": "y"}})}, []string{"", one.Token(t, claims{"a": claims{"b.c": []string{"y", "x"}}})},
		},
		`when: [{key: request.auth.audiences, values: [web]}]`: {
			[]string{one.Token(t, claims{"aud": []string{"web", "x"}})}, []string{"", reader},
		},
		`when: [{key: request.auth.presenter, values: [app]}]`: {
			[]string{one.Token(t, claims{"azp": "app"})}, []string{"", reader},
		},
	} {
		m.policy("readers", "{rules: [{to: [{operation: {paths: ['/mark-"+url.PathEscape(fmt.Sprint(len(condition)))+"']}}]}, {"+condition+"}]}")
		m.ask("the policy of "+condition, 200, "/mark-"+url.PathEscape(fmt.Sprint(len(condition))))
		for status, tokens := range map[int][]string{200: test.allowed, 403: test.denied} {
			for i, token := range tokens {
				var header []string
				if token != "" {
					header = bearer(token)
				}
				m.ask(fmt.Sprintf("%s, token %d of %d", condition, i, status), status, "/", header...)
				m.explains(fmt.Sprintf("%s, token %d of %d", condition, i, status), status, "/", header...)
			}
		}
	}
}

// A RequestAuthentication with an error, of which no good form is known, takes no token that nobody can check. It never
// opens, and a good one opens what it says.
func TestABrokenRequestAuthenticationTakesNoToken(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.GatewayEnvoy("gw")
	one, two := lab.NewIssuer(t, "one.test"), lab.NewIssuer(t, "two.test")
	good := fmt.Sprintf("{issuer: two.test, jwks: '%s'}", two.Keys())
	rule := func(rest string) string { return "{jwtRules: [" + good + ", " + rest + "]}" }
	ofOne, ofTwo := bearer(one.Token(t, nil)), bearer(two.Token(t, nil))
	m.ask("before", 200, "/", ofOne...)
	for _, broken := range []string{
		rule("{issuer: one.test, jwks: '{}'}"),
		rule("{issuer: one.test, jwksUri: 'http://127.0.0.1:1/keys'}"), // an address inside, which discovery does not ask
	} {
		m.authentication("a", broken)
		m.ask("of an issuer without keys", 401, "/", ofOne...)
		m.ask("of a sound rule", 200, "/", ofTwo...)
		m.ask("none", 200, "/")
		m.Check(os.Remove(filepath.Join(m.Config, "tokens-a.yaml")))
		m.ask("of no rule", 200, "/", ofOne...)
	}
	m.authentication("a", rule(fmt.Sprintf(`{issuer: one.test, jwks: '%s', fromHeaders: [{name: x-token, prefix: "a\nb"}]}`, one.Keys())))
	m.ask("at a header whose prefix has two lines", 401, "/", "x-token", "a")
	m.ask("none", 200, "/")
	m.Check(os.Remove(filepath.Join(m.Config, "tokens-a.yaml")))
	m.ask("of no rule", 200, "/", "x-token", "a")
	m.authentication("a", rule("{issuer: one.test, jwks: '{}', outputPayloadToHeader: ':path'}, {issuer: three.test, jwks: 5}"))
	m.ask("of a rule that removes the path", 401, "/", ofOne...)
	m.ask("none", 200, "/")
	m.Check(os.Remove(filepath.Join(m.Config, "tokens-a.yaml")))
	m.ask("of no rule", 200, "/", ofOne...)
	m.authentication("a", rule(fmt.Sprintf("{issuer: one.test, jwks: '%s', audience: [x]}", one.Keys())))
	m.ask("of an issuer that cannot be read", 401, "/", ofOne...)
	m.ask("of a sound rule beside it", 401, "/", ofTwo...)
	m.ask("none", 200, "/")
	m.authentication("a", rule(fmt.Sprintf("{issuer: one.test, jwks: '%s'}", one.Keys())))
	m.ask("mended", 200, "/", ofOne...)
	m.ask("mended", 200, "/", ofTwo...)
	m.authentication("a", rule("{issuer: one.test, jwks: x}"))
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		if log := m.Discovery.Log(); !strings.Contains(log, "is no JSON Web Key Set") {
			return fmt.Errorf("discovery has not read the mistake:\n%s", log)
		}
		return nil
	}))
	m.ask("broken again: the last good form stays", 200, "/", ofOne...)
}
