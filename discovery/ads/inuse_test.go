package ads

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

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
