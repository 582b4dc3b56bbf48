package enroll

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A machine whose clock is ten minutes slow, or fifty fast, gets its certificates, with a note; one that is hours off says by how much.
func TestClocks(t *testing.T) {
	for name, of := range map[string]struct {
		fast time.Duration // of this machine
		held bool
		note string
	}{
		"right":        {0, true, ""},
		"a minute":     {time.Minute, true, ""},
		"minutes slow": {-10 * time.Minute, true, "the clock of this machine is 10m0s slow"},
		"fifty fast":   {50 * time.Minute, true, "the clock of this machine is 50m0s fast"},
		"hours slow":   {-3 * time.Hour, false, "the clock of this machine is 3h0m0s slow"},
		"days fast":    {30 * time.Hour, false, "the clock of this machine is 30h0m0s fast"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority(t, 24*time.Hour)
				f := open(t, a, t.TempDir(), "token")
				f.ask = func(ctx context.Context, csr, roots []byte, with *tls.Certificate, token string) (answer, error) {
					a.mu.Lock()
					a.ahead = -of.fast
					a.mu.Unlock()
					out, err := a.ask(ctx, csr, roots, with, token)
					out.Issued = time.Now().Add(-of.fast)
					return out, err
				}
				f.run(20*time.Minute, nil)
				if (f.serial() != 0) != of.held {
					t.Errorf("a certificate is held: %t\n%s", f.serial() != 0, f.log)
				}
				told := f.log.String()
				if !of.held {
					told = f.Fault()
				}
				if of.note == "" && strings.Contains(told, "the clock") || !strings.Contains(told, of.note) {
					t.Errorf("it says %q, want %q", told, of.note)
				}
			})
		})
	}
}

// The authority's own certificate is not valid at the machine's time: the error tells of the clock.
func TestClockOfTheHandshake(t *testing.T) {
	mesh, err := lab.NewAuthority("mesh")
	check(t, err)
	identity, err := mesh.Issue("ca.test", 2)
	check(t, err)
	pair, err := identity.Pair()
	check(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(mesh.PEM())
	for want, at := range map[string]time.Time{
		"": leaf.NotBefore.Add(time.Minute), "is hours slow, by 3h0m0s at least": leaf.NotBefore.Add(-3 * time.Hour), "is hours fast, by 2h0m0s at least": leaf.NotAfter.Add(2 * time.Hour),
	} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at})
		if got := fmt.Sprint(withClock(err, leaf, at)); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("at %s: %s, want %q", at, got, want)
		}
	}
}
