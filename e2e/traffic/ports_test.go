package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A service at a port that the proxy's own bootstrap, or its agent, listens on costs a sidecar nothing: its Envoy refuses no
// listener, and answers at its own ports.
func TestAServiceAtAPortOfTheBootstrap(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	text := fmt.Sprintf("proxyInboundListenPort: %d\nproxyListenPort: %d\n", lab.Port(t), lab.Port(t))
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--meshConfig", settings)
	prometheus, readiness, status := lab.Port(t), lab.Port(t), lab.Port(t)
	var ports []string
	for i, n := range []int{prometheus, readiness, status} {
		ports = append(ports, fmt.Sprintf("{number: %d, name: http%d, protocol: HTTP}", n, i))
	}
	w.Apply("ServiceEntry greedy", "hosts: [greedy.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: ["+strings.Join(ports, ", ")+
		"]\nendpoints: [{address: "+w.Address()+"}]")
	for _, mode := range []string{"NONE", "REDIRECT"} {
		s, err := w.Sidecar(lab.Workload{
			Name: strings.ToLower(mode), App: "app", IP: w.Address(), Discovery: w.Discovery.GRPC,
			Env: []string{"ISTIO_META_INTERCEPTION_MODE=" + mode}, Flags: []string{
				"--envoyPrometheusPort", strconv.Itoa(prometheus), "--envoyStatusPort", strconv.Itoa(readiness), "--statusPort", strconv.Itoa(status),
			},
		})
		w.Check(err)
		t.Cleanup(func() { s.Stop(lab.StopLimit) })
		w.Check(s.AwaitReady())
		w.Check(s.AwaitHTTP(lab.StopLimit, fmt.Sprintf("http://127.0.0.1:%d/stats/prometheus", prometheus)))
		w.Check(s.AwaitHTTP(lab.StopLimit, fmt.Sprintf("http://127.0.0.1:%d/healthz/ready", readiness)))
		stats, err := lab.Stats(s.Admin, `^listener_manager\.lds\.update_(rejected|success)$`)
		w.Check(err)
		if rejected := stats["listener_manager.lds.update_rejected"]; rejected != 0 || stats["listener_manager.lds.update_success"] == 0 {
			t.Errorf("%s: Envoy refused listeners %d times: %v", mode, rejected, stats)
		}
		s.Stop(lab.StopLimit)
	}
}
