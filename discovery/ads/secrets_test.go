package ads

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

const secretKeyText = "the private key"

func secretsOf(words string) secret.Set {
	out := map[string]secret.Secret{}
	for _, word := range strings.Fields(words) {
		name, text, _ := strings.Cut(word, "=")
		out[name] = secret.Secret{Certificate: []byte(text), Key: []byte(secretKeyText), Accounts: []string{"app"}}
	}
	return secret.Set{"default": out, "other": {"foreign": {Roots: []byte("r")}}}
}

// namingSecrets returns a mesh with a DestinationRule for each secret.
func namingSecrets(secrets ...string) *model.Mesh {
	group := model.Group{}
	for _, name := range secrets {
		host := name + ".com"
		group.Services = append(group.Services, &model.Service{
			Right: model.RightFull, Host: host, Namespace: "default", Resolution: model.ResolutionStatic,
			Ports:     []model.Port{{Name: "tcp", Number: 80, Protocol: model.TCP}},
			Endpoints: []model.Endpoint{{Address: "10.0.0.1"}},
		})
		group.Objects = append(group.Objects, &model.Object{
			Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: name},
			Spec: &networking.DestinationRule{Host: host, TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{
				Mode: networking.ClientTLSSettings_MUTUAL, CredentialName: name,
			}}},
		})
	}
	return model.New(slices.Values([]model.Group{group}))
}

// Over mTLS a proxy gets the secrets of its namespace that it names: also those that are added later, and changes; one
// that is removed stays in use. Before SetSecrets no secrets are served.
func TestSecretsOfANamespace(t *testing.T) {
	for v := range content.Variants {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority(t)
				secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")), nil)
				a.check(err)
				r := &rig{running: runWith(t, testLimits(), secure), t: t}
				r.Push(namingSecrets("a", "b", "later", "foreign"), model.Change{})
				conn := r.dial(a.client(nil, a.issue(3, "spiffe://cluster.local/ns/default/sa/app")))
				defer conn.Close()
				c := r.connectBy(conn, v)
				c.want("before there are any", c.subscribe(content.SDS, "a"), "")
				if got := c.subscribe(content.CDS); !strings.HasPrefix(got, "cds:") {
					t.Errorf("clusters meanwhile: %q", got)
				}
				c.ack(content.CDS)

				r.SetSecrets(secretsOf("a=1 b=1"))
				c = r.connectBy(conn, v)
				missing := map[content.Variant]string{content.SotW: "sds:a", content.Delta: "sds:-foreign,-later,a"}[v]
				c.want("its own", c.subscribe(content.SDS, "a", "later", "foreign"), missing)
				c.want("ACK", c.ack(content.SDS), "")
				r.SetSecrets(secretsOf("a=1 b=2 later=1"))
				c.want("one that came", c.got(), "sds:later")
				c.ack(content.SDS)
				const want = "map[a:secrets are not served: proxies read certificates from files], " + `map[foreign:namespace "default" has no secret of this name]`
				if got := withheldOf(r); got != want {
					t.Errorf("the notes' proxies lack %s, want %s", got, want)
				}
				r.SetSecrets(secretsOf("a=2 b=2 later=1"))
				c.want("one that changed", c.got(), "sds:a")
				c.ack(content.SDS)
				again := r.connectBy(conn, v)
				if again.accepted = c.accepted; v == content.SotW {
					again.want("after a reconnect", again.ask(content.SDS, "a", "later", "foreign"), "")
				} else {
					again.want("after a reconnect", again.resume(content.SDS, c.versions[content.SDS], "a", "later"), "")
				}
				for _, want := range []string{
					`secret=foreign reason="namespace \"default\" has no secret of this name"`,
					`secret=later reason="namespace \"default\" has no secret of this name"`,
				} {
					if !strings.Contains(r.log.String(), want) {
						t.Errorf("the log lacks %s:\n%s", want, r.log)
					}
				}
				only := r.connectTo(conn, v, "/envoy.service.secret.v3.SecretDiscoveryService/"+[content.Variants]string{"Stream", "Delta"}[v]+"Secrets")
				only.want("by the service of secrets alone", only.subscribe(content.SDS, "b"), "sds:b")
				r.SetSecrets(secretsOf("later=1"))
				c.want("one that went", c.got(), "")
				if again = r.connectBy(conn, v); v == content.Delta {
					again.want("and after a reconnect", again.resume(content.SDS, c.versions[content.SDS], "a", "later"), "")
				}
				r.SetSecrets(secretsOf("a=2 later=1"))
				pushes := len(r.Pushes())
				r.SetSecrets(secretsOf("a=2 later=1"))
				if n := len(r.Pushes()); n != pushes {
					t.Errorf("equal secrets make %d pushes", n-pushes)
				}
				dump, err := r.Dump(adstest.NodeID)
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

// withheldOf returns the secrets that the connected proxies lack, as notes see them.
func withheldOf(r *rig) string {
	var out []string
	for _, w := range r.Proxies() {
		if len(w.Withheld) > 0 {
			out = append(out, fmt.Sprint(w.Withheld))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// A private key does not leave the host in plaintext; the stream continues without it.
func TestSecretsAreNotSentInPlaintext(t *testing.T) {
	both(t, nil, func(r *rig, v content.Variant) {
		r.SetSecrets(secretsOf("a=1"))
		r.push(base)
		c := r.connect(v)
		c.want("a secret", c.subscribe(content.SDS, "a"), "")
		c.want("clusters", c.subscribe(content.CDS), "cds:a,b")
		if got, want := withheldOf(r), "map[a:secrets are sent with mTLS only]"; got != want {
			t.Errorf("the notes' proxies lack %s, want %s", got, want)
		}
		if n := strings.Count(r.log.String(), "with mTLS only"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, r.log)
		}
		path := "/envoy.service.secret.v3.SecretDiscoveryService/" + [content.Variants]string{"Stream", "Delta"}[v] + "Secrets"
		c = r.connectTo(r.client, v, path)
		c.subscribe(content.SDS, "a")
		if status.Code(c.ended) != codes.PermissionDenied {
			t.Errorf("a stream of secrets alone: %v, want PermissionDenied", c.ended)
		}
	})
	for _, test := range []struct {
		address string
		allowed bool // by the operator's flag
		want    codes.Code
	}{
		{"127.0.0.1", false, codes.PermissionDenied},
		{"127.0.0.1", true, codes.OK},
		{"::1", true, codes.OK},
		{"127.0.0.6", true, codes.PermissionDenied}, // the source address of connections from other hosts that Envoy forwards
		{"10.0.0.1", true, codes.PermissionDenied},
	} {
		limits := testLimits()
		limits.PlaintextSecrets = test.allowed
		s := New(limits, nil)
		s.SetSecrets(nil)
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(test.address), Port: 9}})
		if got := status.Code(s.maySeeSecrets(ctx)); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestSecretsAreNotServed(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.connectTo(r.client, content.Delta, "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets")
		c.subscribe(content.SDS, "a")
		if status.Code(c.ended) != codes.Unimplemented || !strings.Contains(c.ended.Error(), "secrets are not served") {
			t.Errorf("got %v, want Unimplemented with the reason", c.ended)
		}
	})
}

// The certificates in use are those that the configuration of a connected proxy names and that it may have, with their lives
// as the source has read them, and the first that ends is a metric.
func TestCertificatesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")), nil)
		a.check(err)
		r := &rig{running: runWith(t, testLimits(), secure), t: t}
		if in := r.CertificatesInUse(); len(in) > 0 {
			t.Errorf("before there are secrets: %v", in)
		}
		from, until := time.Unix(1_000_000, 0), time.Unix(2_000_000, 0)
		set := secretsOf("a=1 b=1 unnamed=1 of-others=1 roots=1")
		secrets := set["default"]
		for name, s := range secrets {
			s.From, s.Until = from, until
			secrets[name] = s
		}
		later, others := secrets["b"], secrets["of-others"]
		later.Until, others.Accounts = until.Add(time.Hour), []string{"another"}
		secrets["b"], secrets["of-others"], secrets["roots"] = later, others, secret.Secret{Roots: []byte("r")}
		r.SetSecrets(set)
		r.Push(namingSecrets("a", "b", "of-others", "roots", "foreign"), model.Change{})
		conn := r.dial(a.client(nil, a.issue(3, "spiffe://cluster.local/ns/default/sa/app")))
		defer conn.Close()
		want := func(when, want string) {
			t.Helper()
			var got []string
			for _, c := range r.CertificatesInUse() {
				got = append(got, fmt.Sprint(c.Name, " ", c.From.Unix(), " ", c.Until.Unix(), " ", c.Proxies))
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("%s: in use are %q, want %q", when, text, want)
			}
		}
		want("without a proxy", "")
		for range 2 {
			c := r.connectBy(conn, content.Delta)
			c.subscribe(content.SDS, "a")
			c.ack(content.SDS)
		}
		want("of two proxies", "default/a 1000000 2000000 2, default/b 1000000 2003600 2")
		if err := testutil.CollectAndCompare(r.Metrics(), strings.NewReader(`
# HELP pilotlight_secret_nearest_expiry_timestamp_seconds When the first certificate of a secret ends that connected proxies use, such as one of a gateway; absent without any.
# TYPE pilotlight_secret_nearest_expiry_timestamp_seconds gauge
pilotlight_secret_nearest_expiry_timestamp_seconds 2e+06
`), "pilotlight_secret_nearest_expiry_timestamp_seconds"); err != nil {
			t.Error(err)
		}
		renewed := secretsOf("a=2 b=1")
		for name, s := range renewed["default"] {
			s.From, s.Until = until, until.Add(time.Hour)
			renewed["default"][name] = s
		}
		r.SetSecrets(renewed)
		synctest.Wait()
		want("after it was renewed", "default/a 2000000 2003600 2, default/b 2000000 2003600 2")
	})
}
