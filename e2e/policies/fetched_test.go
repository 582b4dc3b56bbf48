package policies

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Keys of a jwksUri, or of an issuer that has a document with their address, are fetched by discovery. A token passes once they are known, and still when their server is away.
func TestKeysAreFetched(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	m := newMesh(t, "--jwksInside", "--stateDir", state+"/state")
	m.GatewayEnvoy("gw")
	one, two := lab.NewIssuer(t, "one.test"), lab.NewIssuer(t, "one.test")
	var set atomic.Pointer[string]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	m.Check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if set.Load() != nil && r.URL.Path == "/realm/.well-known/openid-configuration" {
			fmt.Fprintf(w, `{"jwks_uri": "http://%s/keys"}`, r.Host)
			return
		}
		if keys := set.Load(); keys != nil {
			fmt.Fprint(w, *keys)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	realm := "http://" + l.Addr().String() + "/realm" // an issuer only
	open, forged := one.Named(realm), two.Named(realm)
	m.authentication("all", fmt.Sprintf("{jwtRules: [{issuer: one.test, jwksUri: 'http://%s/keys'}, {issuer: '%s'}]}", l.Addr(), realm))
	m.ask("before the keys are known", 401, "/", bearer(one.Token(t, nil))...)
	m.ask("before an issuer's document is known", 401, "/", bearer(open.Token(t, nil))...)
	m.ask("no token", 200, "/")
	keys := one.Keys()
	set.Store(&keys)
	m.ask("once they are", 200, "/", bearer(one.Token(t, nil))...)
	m.ask("once the document is", 200, "/", bearer(open.Token(t, nil))...)
	m.ask("of another key", 401, "/", bearer(two.Token(t, nil))...)
	m.ask("of another key, by the issuer only", 401, "/", bearer(forged.Token(t, nil))...)
	set.Store(nil)
	m.Discovery.Stop(lab.StopLimit)
	m.Check(m.Discovery.Restart())
	m.policy("later", `{action: DENY, rules: [{to: [{operation: {paths: [/later]}}]}]}`)
	m.ask("what discovery says since", 403, "/later")
	m.ask("after a restart of discovery, without their server", 200, "/", bearer(one.Token(t, nil))...)
	m.ask("once the document is", 200, "/", bearer(open.Token(t, nil))...)
	m.ask("of another key", 401, "/", bearer(two.Token(t, nil))...)
	m.ask("of another key, by the issuer only", 401, "/", bearer(forged.Token(t, nil))...)
}

// After a restart of discovery that has kept nothing, an Envoy that comes back does not lose keys, not even for a moment.
func TestKeysAreThereAfterARestart(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "--jwksInside")
	m.GatewayEnvoy("gw")
	one := lab.NewIssuer(t, "one.test")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	m.Check(err)
	var slow atomic.Bool
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			select {
			case <-time.After(2 * time.Second):
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, one.Keys())
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	m.authentication("all", fmt.Sprintf("{jwtRules: [{issuer: one.test, jwksUri: 'http://%s/keys'}]}", l.Addr()))
	token := bearer(one.Token(t, nil))
	m.ask("once the keys are known", 200, "/", token...)
	slow.Store(true)
	m.Discovery.Stop(lab.StopLimit)
	m.policy("later", `{action: DENY, rules: [{to: [{operation: {paths: [/later]}}]}]}`)
	restarted := make(chan error, 1)
	go func() { restarted <- m.Discovery.Restart() }()
	client, lost := lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", m.plain), nil), 0
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		sound, err := lab.Exchange(client, http.MethodGet, "http://gateway.test/", token...)
		if err != nil || sound.Status != 200 {
			lost++
		}
		later, err := lab.Exchange(client, http.MethodGet, "http://gateway.test/later", token...)
		if err != nil {
			return err
		}
		return lab.Status(403)(later)
	}))
	m.Check(<-restarted)
	if m.ask("afterwards", 200, "/", token...); lost > 0 {
		t.Errorf("%d requests with a sound token were refused", lost)
	}
}
