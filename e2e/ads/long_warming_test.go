//go:build long

package ads

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A name that is never resolved, because its server does not answer, a certificate that does not exist, and endpoints that
// never come: a new Envoy starts, weights change, and services come and go as if none of them were there. Endpoints alone do
// hold up the start of an Envoy, which would be ready without them else.
func TestLongWarmingHoldsUpNothingElse(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody reads from it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	overADS(t, func(l *envoyLab) {
		l.relay.Close()
		l.relay, err = newRelay(startMute(t, l.Discovery.GRPC, "mute"))
		l.Check(err)
		t.Cleanup(l.relay.Close)
		l.resolver = fmt.Sprintf(`
  "typed_dns_resolver_config": {"name": "envoy.network.dns_resolver.cares", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
    "resolvers": [{"socket_address": {"address": "127.0.0.1", "port_value": %d}}]}},`, silent.LocalAddr().(*net.UDPAddr).Port)
		quick := func(what string, do func()) {
			t.Helper()
			watch := lab.StartStopwatch()
			do()
			t.Logf("%s: %s", what, watch.Took())
			watch.Within(t, 3*time.Second, what)
		}
		l.Write("stuck0.yaml", fmt.Sprintf(stuckServices, 0))
		var e *envoyProcess
		quick("a new Envoy", func() {
			e = l.start(0)
			l.answers("one")
		})
		for i := 1; i <= 2; i++ {
			added := l.stat(e, "cluster_manager.cluster_added")
			l.Write(fmt.Sprintf("stuck%d.yaml", i), fmt.Sprintf(stuckServices+muteService, i))
			quick("clusters that do not get warm", func() {
				l.Check(lab.Eventually(lab.StopLimit, func() error {
					if now := l.stat(e, "cluster_manager.cluster_added"); now < added+3 {
						return fmt.Errorf("%d clusters were added, want %d", now, added+3)
					}
					return nil
				}))
			})
			quick("weights", func() {
				l.route(echoHost, "other")
				l.answers("two")
				l.route(echoHost, echoHost)
				l.answers("one")
			})
			name := fmt.Sprintf("late%d", i)
			quick("a new service", func() {
				host, port, _ := strings.Cut(l.backend["two"], ":")
				l.Write(name+".yaml", fmt.Sprintf(entry, name, name+".test", host, port))
				l.Check(lab.Eventually(30*time.Second, func() error {
					// Envoy resolves a name that it does not know: the request must not wait for that.
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.proxy+"/", nil)
					if err != nil {
						return err
					}
					request.Host = name + ".test"
					response, err := http.DefaultClient.Do(request)
					if err != nil {
						return err
					}
					defer response.Body.Close()
					if got, err := io.ReadAll(response.Body); err != nil || string(got) != "two" {
						return fmt.Errorf("answered by %q (%v), want two", got, err)
					}
					return nil
				}))
			})
		}
		l.Check(lab.Eventually(lab.StopLimit, func() error { // so endpoints were withheld indeed
			if n := l.stat(e, "cluster_manager.warming_clusters"); n != 2 {
				return fmt.Errorf("%d clusters are warming, want the two whose endpoints never come", n)
			}
			return nil
		}))
	}, "--secretsDir", t.TempDir())
}

// route leads a host to a service, by a VirtualService.
func (l *envoyLab) route(host, to string) {
	l.T.Helper()
	if to == "other" {
		address, port, _ := strings.Cut(l.backend["two"], ":")
		to = "second.test"
		l.Write("second.yaml", fmt.Sprintf(entry, "second", to, address, port))
	}
	l.Write("route.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: route, namespace: default}
spec:
  hosts: [%s]
  http: [{route: [{destination: {host: %s}, weight: 100}]}]
`, host, to))
}

const stuckServices = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dns%[1]d, namespace: default}
spec:
  hosts: [dns%[1]d.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: DNS
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: sealed%[1]d, namespace: default}
spec:
  hosts: [sealed%[1]d.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {http: 9}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: sealed%[1]d, namespace: default}
spec: {host: sealed%[1]d.test, trafficPolicy: {tls: {mode: SIMPLE, credentialName: missing%[1]d}}}
`

const muteService = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mute%[1]d, namespace: default}
spec:
  hosts: [mute%[1]d.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {http: 9}}]
`
