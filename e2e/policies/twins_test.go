package policies

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A second policy of one name closes what it names, in a file of its own or not, sound or not; the first one counts as before.
func TestASecondPolicyOfOneName(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	const header = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: twin}\nspec: "
	deny := func(path string) string {
		return header + "{action: DENY, rules: [{to: [{operation: {paths: [" + path + "], methods: [GET]}}]}]}\n"
	}
	write := func(files ...string) {
		for i, name := range []string{"a.yaml", "b.yaml"} {
			path := filepath.Join(m.Config, name)
			if i >= len(files) {
				m.Check(os.RemoveAll(path))
				continue
			}
			m.Check(os.WriteFile(path+"~", []byte(files[i]), 0o644))
			m.Check(os.Rename(path+"~", path))
		}
	}
	m.GatewayEnvoy("gw")
	m.ask("no policy", 200, "/a")
	write(deny("/a"), deny("/b"))
	m.ask("in two files", 403, "/a")
	m.ask("in two files", 403, "/b")
	m.ask("in two files", 200, "/c")
	m.explains("in two files", 403, "/b")
	write(deny("/a") + "---\n" + deny("/c"))
	m.ask("in one file", 403, "/c")
	m.ask("in one file", 403, "/a")
	m.ask("in one file", 200, "/b")
	write(deny("/a"), strings.Replace(deny("/b"), "/b]", "/b, [x]]", 1))
	m.ask("a broken second one", 403, "/b")
	m.ask("a broken second one", 403, "/a")
	write(deny("/a"), deny("/a"))
	m.ask("equal ones", 200, "/b")
	m.ask("equal ones", 403, "/a")
	keys := lab.NewIssuer(t, "one")
	write()
	m.authentication("a", `{jwtRules: [{issuer: one, jwks: '`+keys.Keys()+`'}]}`)
	token := keys.Token(t, map[string]any{"sub": "me"})
	m.ask("one issuer", 200, "/a", bearer(token)...)
	m.Check(os.WriteFile(filepath.Join(m.Config, "b.yaml"), []byte(`
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: a}
spec: {jwtRules: [{issuer: two, jwks: '`+lab.NewIssuer(t, "two").Keys()+`'}]}
`), 0o644))
	m.ask("two issuers", 401, "/a", bearer(token)...)
	m.ask("two issuers, no token", 200, "/a")
}
