package traffic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An endpoint of another network is reached through that network's gateway, which passes mutual TLS on by server name; one
// of the own network directly. Nobody could reach the other ones' addresses otherwise: they are the gateway's network's.
func TestNetworks(t *testing.T) {
	t.Parallel()
	networks := filepath.Join(t.TempDir(), "networks.yaml")
	write := func(text string) error {
		return errors.Join(os.WriteFile(networks+"~", []byte(text), 0o644), os.Rename(networks+"~", networks))
	}
	if err := write("networks: {}"); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--networksConfig", networks)
	gateway := w.Address()
	w.Check(write(fmt.Sprintf("networks:\n  near: {}\n  far: {gateways: [{address: %s, port: 15443}]}\n", gateway)))
	ca := w.certificates()
	ca.issue(w, "client.test")
	near, first, second := w.mutualBackend(ca, "near"), w.mutualBackend(ca, "first"), w.mutualBackend(ca, "second")
	w.ServiceOf("app.test", "HTTP", near.Endpoint(", network: near"), first.Endpoint(", network: far"), second.Endpoint(", network: far"))
	w.Apply(
		"DestinationRule app", "host: app.test\ntrafficPolicy: {tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {maxRequestsPerConnection: 1}}, loadBalancer: {simple: ROUND_ROBIN}}",
		"Gateway far", fmt.Sprintf(`
		selector: {gateway: far}
		servers: [{port: {number: 15443, name: tls, protocol: TLS}, bind: %s, hosts: ["*.test"], tls: {mode: AUTO_PASSTHROUGH}}]
	`, gateway))
	in := func(network string) map[string]any {
		return map[string]any{
			"NETWORK": network, "NAMESPACE": "default", "LABELS": map[string]string{"gateway": network},
			"TLS_CLIENT_CERT_CHAIN": ca.path("client.test.pem"), "TLS_CLIENT_KEY": ca.path("client.test.key"),
			"TLS_CLIENT_ROOT_CERT": ca.path("ca.pem"),
		}
	}
	far := w.RunEnvoy(fmt.Sprintf("router~%s~far.default~default.svc.cluster.local", gateway), "", in("far"))
	client := w.SidecarEnvoyWith("client", "", in("near"))
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if n := far.Stat(`^listener_manager\.total_listeners_active$`); n != 1 {
			return fmt.Errorf("%d listeners of the gateway are active", n)
		}
		if n := far.Stat(`^cluster\.outbound_\.80_\._\.app\.test\.membership_total$`); n != 2 {
			return fmt.Errorf("the gateway passes on to %d endpoints, want the two of its network", n)
		}
		if n := client.Stat(`^cluster\.outbound\|80\|\|app\.test\.membership_total$`); n != 2 {
			return fmt.Errorf("the client knows %d endpoints, want the near one and the gateway", n)
		}
		return nil
	}))
	client.Until(lab.Status(200), "http://app.test/")
	const requests = 90
	got := map[string]int{}
	for range requests {
		a, err := client.Get("http://app.test/")
		w.Check(err)
		got[a.Echo.Backend]++
	}
	if len(got) != 3 {
		t.Errorf("answered by %v, want all three", got)
	}
	// The gateway stands for two endpoints, so it has twice the weight of the near one.
	if n := got["near"]; n < requests/3-3 || n > requests/3+3 {
		t.Errorf("the near one got %d of %d, want a third: %v", n, requests, got)
	}
	if n := far.Stat(`^cluster\.outbound_\.80_\._\.app\.test\.upstream_cx_total$`); n == 0 {
		t.Error("the gateway counts no connection that it passed on")
	}
	w.replay(client)
	w.replay(far)
}
