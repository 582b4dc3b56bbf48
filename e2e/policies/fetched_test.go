package policies

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Keys of a jwksUri are fetched by discovery. A token passes once they are known, and still when their server is away.
func TestKeysAreFetched(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	m := newMesh(t, "--jwksInside", "--stateDir", state+"/state")
	m.GatewayEnvoy("gw")
	one, two := newIssuer(t, "one.test"), newIssuer(t, "one.test")
	var set atomic.Pointer[string]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	m.Check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if keys := set.Load(); keys != nil {
			fmt.Fprint(w, *keys)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	m.authentication("all", fmt.Sprintf("{jwtRules: [{issuer: one.test, jwksUri: 'http://%s/keys'}]}", l.Addr()))
	m.ask("before the keys are known", 401, "/", bearer(one.token(t, nil))...)
	m.ask("no token", 200, "/")
	keys := one.keys()
	set.Store(&keys)
	m.ask("once they are", 200, "/", bearer(one.token(t, nil))...)
	m.ask("of another key", 401, "/", bearer(two.token(t, nil))...)
	set.Store(nil)
	m.Discovery.Stop(lab.StopLimit)
	m.Check(m.Discovery.Restart())
	m.policy("later", `{action: DENY, rules: [{to: [{operation: {paths: [/later]}}]}]}`)
	m.ask("what discovery says since", 403, "/later")
	m.ask("after a restart of discovery, without their server", 200, "/", bearer(one.token(t, nil))...)
	m.ask("of another key", 401, "/", bearer(two.token(t, nil))...)
}
