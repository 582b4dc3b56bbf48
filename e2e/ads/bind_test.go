package ads

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A port of a real Envoy that another process holds is in the status of the proxy, with the address and what to do, and no longer once an Envoy has it.
func TestAPortThatAnotherProcessHolds(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		says := func(want string, there bool) {
			t.Helper()
			l.Check(lab.Eventually(2*lab.StopLimit, func() error {
				out, err := exec.CommandContext(t.Context(), filepath.Join(l.Bin, "discovery"), "status", "--httpAddr", l.Discovery.HTTP).CombinedOutput()
				if err != nil || strings.Contains(string(out), want) != there || !strings.Contains(string(out), "default/ads") {
					return fmt.Errorf("%q is in the status: want %t: %w\n%s", want, there, err, out)
				}
				return nil
			}))
		}
		holder, err := net.Listen("tcp", l.proxy)
		l.Check(err)
		e := l.launch(0)
		says(" is not opened by this connected Envoy at "+l.proxy+": another process holds the port (ss -ltnp there names it)", true)
		says("default/ads: cannot-bind: listener ", true)
		l.Check(holder.Close())
		e.Stop(lab.StopLimit)
		e = l.start(0)
		l.answers("one")
		says("cannot-bind", false)
		e.Stop(lab.StopLimit)
	})
}
