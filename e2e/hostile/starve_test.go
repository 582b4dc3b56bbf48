package hostile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A tenant that names 1,200 jwksUris, of which half are silent and half fail, keeps nobody's keys from being fetched: not new ones, nor
// after a restart of discovery that has kept nothing, which is ready before the silent ones were all asked.
func TestATenantStarvesNoKeys(t *testing.T) {
	t.Parallel()
	issuer := lab.NewIssuer(t, "bank.test")
	var silent, failing atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/silent/"):
			silent.Add(1)
			<-r.Context().Done()
		case strings.HasPrefix(r.URL.Path, "/failing/"):
			failing.Add(1)
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, issuer.Keys())
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // the first that runs
	s := start(t, "--jwksInside")
	var evil strings.Builder
	for i := range 60 {
		fmt.Fprintf(&evil, "\nRequestAuthentication starve-%d\n  jwtRules: [", i)
		for j := range 10 {
			for _, kind := range []string{"silent", "failing"} {
				fmt.Fprintf(&evil, "{issuer: %s-%d.test, jwksUri: '%s/%[1]s/%[4]d-%[2]d'}, ", kind, j, server.URL, i)
			}
		}
		evil.WriteString("]")
	}
	s.write("evil", "evil", evil.String())
	s.Check(lab.Eventually(lab.StopLimit, func() error {
		if silent.Load() == 0 || failing.Load() == 0 {
			return fmt.Errorf("%d silent and %d failing ones are asked", silent.Load(), failing.Load())
		}
		return nil
	}))
	rule := func(path string) string {
		return fmt.Sprintf(`
RequestAuthentication %[1]s
  jwtRules: [{issuer: %[1]s.test, jwksUri: '%[2]s/%[1]s'}]`, path, server.URL)
	}
	s.write("bank", "istio-ingress", rule("bank"))
	answers := func(status int, who lab.Issuer) {
		t.Helper()
		s.Check(lab.Eventually(lab.StopLimit, func() error {
			a, err := lab.Exchange(s.client(), http.MethodGet, "http://own.test/", "Authorization", "Bearer "+who.Token(t, nil))
			if err != nil {
				return err
			}
			return lab.Status(status)(a)
		}))
	}
	answers(401, lab.NewIssuer(t, "bank.test")) // a forged one
	answers(299, issuer)

	s.Discovery.Stop(lab.StopLimit)
	s.write("later", "istio-ingress", rule("later"))
	silent.Store(0)
	s.Check(s.Discovery.Restart())
	if n := silent.Load(); n >= 600/2 {
		t.Errorf("discovery was ready after %d questions of evil's without an answer", n)
	}
	answers(299, issuer)
	answers(299, issuer.Named("later.test"))
}
