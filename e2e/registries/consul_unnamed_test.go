//go:build registries

package registries

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Of 2,000 services without checks one gets another address: no list of Consul names the change, and it is known within two seconds, of
// which one is the wait for a list, by a machine at rest.
func TestConsulUnnamedChanges(t *testing.T) {
	w := newWorld(t)
	server := w.consulServer()
	const services = 2000
	register := func(i int, ip string) {
		w.check(send("PUT", server.url+"/v1/catalog/register", "", map[string]any{
			"Node": "n", "Address": "10.9.9.9", "SkipNodeUpdate": true,
			"Service": map[string]any{"ID": fmt.Sprint("s-", i), "Service": fmt.Sprint("s-", i), "Port": 80, "Address": ip},
		}))
	}
	for i := range services {
		register(i, "10.0.0.1")
	}
	w.serve("--registries", "Consul", "--consulserverURL", server.url)
	w.eventually(fmt.Sprintf(`"objects": %d,`, services), func() string { return w.get("/debug/sources") })
	for i := range 5 {
		ip, watch := fmt.Sprintf("10.0.1.%d", i+1), lab.StartStopwatch()
		register(100*i, ip)
		w.check(lab.Eventually(time.Minute, func() error {
			if got := w.known(fmt.Sprintf("s-%d.service.consul", 100*i), ip); got == "not known" {
				return fmt.Errorf("%s is %s", ip, got)
			}
			return nil
		}))
		t.Logf("another address is known after %s", watch.Took())
		watch.Within(t, 15*time.Second, "another address") // a second or two at rest; one service after the other would take 20 to 68
	}
}
