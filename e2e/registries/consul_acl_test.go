//go:build registries

package registries

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// made sends a body to Consul and returns a field of its answer, which is a text.
func (c *consul) made(method, path, field string, body any) string {
	c.w.T.Helper()
	var out map[string]any
	c.w.check(lab.Eventually(stopLimit, func() error { // right after its start Consul has no ACL yet
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r, err := http.NewRequest(method, c.url+path, strings.NewReader(string(data)))
		if err != nil {
			return err
		}
		r.Header.Set("X-Consul-Token", c.token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s", method, path, response.Status)
		}
		return json.NewDecoder(response.Body).Decode(&out)
	}))
	return fmt.Sprint(out[field])
}

// reader makes a token that may read these services and every node, and returns its secret and its accessor.
func (c *consul) reader(name string, services ...string) (secret, accessor string) {
	c.w.T.Helper()
	rules := `node_prefix "" { policy = "read" }`
	for _, service := range services {
		rules += fmt.Sprintf("\nservice %q { policy = \"read\" }", service)
	}
	c.made("PUT", "/v1/acl/policy", "ID", map[string]any{"Name": name, "Rules": rules})
	secret = c.made("PUT", "/v1/acl/token", "SecretID", map[string]any{"AccessorID": accessorOf(name), "Policies": []map[string]string{{"Name": name}}})
	return secret, accessorOf(name)
}

// accessorOf is a UUID of a name.
func accessorOf(name string) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", name) }

// A Consul that is bootstrapped with ACLs. A token that may read one of two services has that one served, and it is said that there are
// others; the next token in the file has both. A token that is revoked takes nothing away.
func TestConsulTokenThatHides(t *testing.T) {
	w := newWorld(t)
	server := w.consul("server", map[string]any{
		"server": true, "bootstrap_expect": 1, "acl": map[string]any{"enabled": true, "default_policy": "deny"},
	})
	server.token = server.made("PUT", "/v1/acl/bootstrap", "SecretID", nil)
	w.check(server.external("web", "one", "127.0.0.1", 1, "passing", 1))
	w.check(server.external("vault", "two", "127.0.0.1", 2, "passing", 1))
	some, _ := server.reader("some", "web", "consul")
	all, accessor := server.reader("both", "web", "vault", "consul")
	token := filepath.Join(w.Dir, "token")
	write := func(text string) { w.check(os.WriteFile(token, []byte(text+"\n"), 0o600)) }
	write(some)
	w.serve("--registries", "Consul", "--consulserverURL", server.url, "--consulTokenFile", token)
	registry := func() string { return w.get("/debug/registryz") }
	w.eventually("web.service.consul", registry)
	if strings.Contains(registry(), "vault.service.consul") {
		t.Error("a service is served that the token may not read")
	}
	w.eventually("Consul's token hides services, which are not served", w.discovery.Log)
	write(all)
	w.check(server.external("web", "three", "127.0.0.1", 3, "passing", 1)) // a change ends the questions that stand, for a minute else
	w.eventually("vault.service.consul", registry)
	w.check(send("DELETE", server.url+"/v1/acl/token/"+accessor, server.token, nil))
	w.check(server.external("web", "four", "127.0.0.1", 4, "passing", 1))
	w.eventually("ACL not found", func() string { return w.get("/ready?verbose") })
	for _, host := range []string{"web.service.consul", "vault.service.consul"} {
		if !strings.Contains(registry(), host) {
			t.Errorf("with a token that was revoked %s is not served", host)
		}
	}
}

// Namespaces and admin partitions are of Consul Enterprise: the community's Consul refuses them, and that is said.
func TestConsulOfTheCommunityHasNoNamespaces(t *testing.T) {
	for _, flag := range []string{"--consulNamespace", "--consulPartition"} {
		w := newWorld(t)
		w.configDir = filepath.Join(w.Dir, "config") // discovery is ready with it
		w.check(os.MkdirAll(w.configDir, 0o755))
		server := w.consulServer()
		w.check(server.external("web", "one", "127.0.0.1", 1, "passing", 1))
		w.serve("--registries", "Consul", "--consulserverURL", server.url, flag, "team", "--registrySyncTimeout", "100ms", "--optionalSources", "Consul")
		w.eventually("Consul Enterprise", func() string { return w.get("/ready?verbose") })
		t.Log(w.get("/ready?verbose"))
	}
}
