package enroll

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A machine's life: its token is dead after the first certificate, and the agent is started again twenty times within months. Each run finds the
// certificate, and renews by it.
func TestTwentyRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, a := t.TempDir(), newAuthority(t, 24*time.Hour)
		a.cert.NotAfter = time.Now().Add(10000 * time.Hour)
		first := open(t, a, dir, "token")
		first.run(time.Hour, nil)
		first.Close()
		for n := range 20 {
			again := open(t, a, dir, "dead")
			before := again.serial()
			again.run(16*time.Hour, nil)
			if now := again.serial(); before == 0 || now == before || again.Fault() != "" {
				t.Errorf("restart %d: serial %d, before %d, fault %q", n+1, now, before, again.Fault())
			}
			again.Close()
			<-time.After(time.Duration(n%8) * time.Hour) // down
		}
		if asked, _, _ := a.seen(); slices.Contains(asked[1:], "token") || slices.Contains(asked, "dead") {
			t.Errorf("asked by %v, want certificates after the first", asked)
		}
	})
}
