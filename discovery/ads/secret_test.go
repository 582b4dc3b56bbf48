package ads

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const secretKeyText = "the private key"

func secretsOf(words string) Secrets {
	out := map[string]Secret{}
	for _, word := range strings.Fields(words) {
		name, text, _ := strings.Cut(word, "=")
		out[name] = Secret{Certificate: []byte(text), Key: []byte(secretKeyText)}
	}
	return Secrets{"default": out, "other": {"foreign": {Roots: []byte("r")}}}
}

// Over mTLS a proxy gets the secrets of its namespace that it names: those that come later too, and changes; one that
// goes stays in use. Before they are set none are served.
func TestSecretsOfANamespace(t *testing.T) {
	for v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority(t)
				secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")))
				a.check(err)
				r := &rig{running: runWith(t, testLimits(), secure), t: t}
				r.push(base)
				conn := r.dial(a.client(nil, a.issue(3, "spiffe://cluster.local/ns/default/sa/app")))
				defer conn.Close()
				c := r.connectBy(conn, v)
				c.want("before there are any", c.subscribe(sds, "a"), "")
				c.want("clusters meanwhile", c.subscribe(cds), "cds:a,b")
				c.ack(cds)

				r.SetSecrets(secretsOf("a=1 b=1"))
				c = r.connectBy(conn, v)
				missing := map[variant]string{sotw: "sds:a", delta: "sds:-foreign,-later,a"}[v]
				c.want("its own", c.subscribe(sds, "a", "later", "foreign"), missing)
				c.want("ACK", c.ack(sds), "")
				r.SetSecrets(secretsOf("a=1 b=2 later=1"))
				c.want("one that came", c.got(), "sds:later")
				c.ack(sds)
				r.SetSecrets(secretsOf("a=2 b=2 later=1"))
				c.want("one that changed", c.got(), "sds:a")
				c.ack(sds)
				again := r.connectBy(conn, v)
				if again.accepted = c.accepted; v == sotw {
					again.want("after a reconnect", again.ask(sds, "a", "later", "foreign"), "")
				} else {
					again.want("after a reconnect", again.resume(sds, c.versions[sds], "a", "later"), "")
				}
				only := r.connectTo(conn, v, "/envoy.service.secret.v3.SecretDiscoveryService/"+[variants]string{"Stream", "Delta"}[v]+"Secrets")
				only.want("by the service of secrets alone", only.subscribe(sds, "b"), "sds:b")
				r.SetSecrets(secretsOf("later=1"))
				c.want("one that went", c.got(), "")
				if again = r.connectBy(conn, v); v == delta {
					again.want("and after a reconnect", again.resume(sds, c.versions[sds], "a", "later"), "")
				}
				r.SetSecrets(secretsOf("a=2 later=1"))
				pushes := len(r.Pushes())
				r.SetSecrets(secretsOf("a=2 later=1"))
				if n := len(r.Pushes()); n != pushes {
					t.Errorf("equal secrets make %d pushes", n-pushes)
				}
				dump, err := r.Dump(nodeID)
				a.check(err)
				text, err := json.Marshal(dump)
				a.check(err)
				if strings.Contains(string(text), secretKeyText) || strings.Contains(string(text), "inlineBytes") {
					t.Errorf("a debug page shows a key: %s", text)
				}
			})
		})
	}
}

// A private key does not leave the host in plaintext; the stream goes on without.
func TestSecretsAreNotSentInPlaintext(t *testing.T) {
	both(t, nil, func(r *rig, v variant) {
		r.SetSecrets(secretsOf("a=1"))
		r.push(base)
		c := r.connect(v)
		c.want("a secret", c.subscribe(sds, "a"), "")
		c.want("clusters", c.subscribe(cds), "cds:a,b")
		if n := strings.Count(r.log.String(), "with mTLS only"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, r.log)
		}
		path := "/envoy.service.secret.v3.SecretDiscoveryService/" + [variants]string{"Stream", "Delta"}[v] + "Secrets"
		c = r.connectTo(r.client, v, path)
		c.subscribe(sds, "a")
		if status.Code(c.ended) != codes.PermissionDenied {
			t.Errorf("a stream of secrets alone: %v, want PermissionDenied", c.ended)
		}
	})
	for address, want := range map[string]codes.Code{
		"127.0.0.1": codes.OK, "::1": codes.OK, "10.0.0.1": codes.PermissionDenied,
	} {
		s := New(testLimits(), nil)
		s.SetSecrets(nil)
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address)}})
		if got := status.Code(s.maySeeSecrets(ctx)); got != want {
			t.Errorf("from %s: %s, want %s", address, got, want)
		}
	}
}

func TestSecretsAreNotServed(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.connectTo(r.client, delta, "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets")
		c.subscribe(sds, "a")
		if status.Code(c.ended) != codes.Unimplemented || !strings.Contains(c.ended.Error(), "secrets are not served") {
			t.Errorf("got %v, want Unimplemented with the reason", c.ended)
		}
	})
}

// Files are read as they stand; what cannot be read keeps what was read before, and is named.
func TestReadSecrets(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	put := func(name string, files map[string]string) {
		a.check(os.MkdirAll(filepath.Join(dir, name), 0o755))
		for file, text := range files {
			a.check(os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o600))
		}
	}
	read := a.write(t.TempDir(), a.issue(2, ""))
	text := func(path string) string {
		data, err := os.ReadFile(path)
		a.check(err)
		return string(data)
	}
	cert, key, roots := text(read.Cert), text(read.Key), text(read.CA)
	put("default/pair", map[string]string{"tls.crt": cert, "tls.key": key})
	put("default/mutual", map[string]string{"tls.crt": cert, "tls.key": key, "ca.crt": roots})
	put("default/roots", map[string]string{"ca.crt": roots})
	put("other/.data", nil)
	got, err := ReadSecrets(dir, nil)
	a.check(err)
	if want := "default/mutual-cacert=roots default/mutual=pair default/pair=pair default/roots-cacert=roots default/roots=roots"; named(got) != want {
		t.Errorf("read %q, want %q", named(got), want)
	}

	put("default/pair", map[string]string{"tls.key": "half a k"})
	put("default/empty", nil)
	put("default/wrong", map[string]string{"ca.crt": "no PEM"})
	again, err := ReadSecrets(dir, got)
	for _, want := range []string{"default/pair, of tls.crt and tls.key", "default/empty: it has neither tls.crt nor ca.crt", "default/wrong: no certificate in ca.crt"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to name %q", err, want)
		}
	}
	if named(again) != named(got) {
		t.Errorf("with broken files %q, want what was read before, %q", named(again), named(got))
	}
	if kept, err := ReadSecrets(filepath.Join(dir, "gone"), got); err == nil || named(kept) != named(got) {
		t.Errorf("without the directory %q and %v, want what was read before and an error", named(kept), err)
	}
}

func named(all Secrets) string {
	var out []string
	for namespace, secrets := range all {
		for name, s := range secrets {
			what := "roots"
			if len(s.Certificate) > 0 && len(s.Key) > 0 && len(s.Roots) == 0 {
				what = "pair"
			}
			out = append(out, fmt.Sprintf("%s/%s=%s", namespace, name, what))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
