//go:build registries

package registries

import (
	"fmt"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// eureka is a Eureka server of Spring Cloud. What it knows is in its memory only.
type eureka struct {
	*part
	url string
}

// eureka starts a server. Evictions come after a second, and no answer is older than a change.
func (w *world) eureka(further ...string) *eureka {
	w.t.Helper()
	jars, port := needs(w.t, "eureka"), w.port()
	e := &eureka{url: fmt.Sprintf("http://%s/eureka", local(port))}
	argv := []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", jars + ":" + jars + "/*", "Eureka",
		"--server.address=127.0.0.1", fmt.Sprintf("--server.port=%d", port),
		"--eureka.client.register-with-eureka=false", "--eureka.client.fetch-registry=false",
		"--eureka.server.enable-self-preservation=false", "--eureka.server.eviction-interval-timer-in-ms=1000",
		"--eureka.server.use-read-only-response-cache=false", "--eureka.server.wait-time-in-ms-when-sync-empty=0",
	}
	e.part = w.part(lab.Spec{Name: "eureka", Argv: append(argv, further...)}, func() error {
		_, err := lab.Get(e.url + "/apps")
		return err
	})
	return e
}

// A Eureka that is started answers.
func TestEurekaStarts(t *testing.T) {
	w := newWorld(t)
	e := w.eureka()
	_, err := lab.Get(e.url + "/apps/delta")
	w.check(err)
}
