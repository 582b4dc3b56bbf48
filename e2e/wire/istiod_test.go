//go:build wire

package wire

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// istiod is Istio's control plane. It reads files and no Kubernetes.
type istiod struct {
	*lab.Process
	w    *world
	spec lab.Spec
	grpc string // host:port of its plain-text xDS
	http string // host:port of its debug pages
}

// istiod starts one with these lines of MeshConfig. It reads the world's files, unless they name other sources.
func (w *world) istiod(settings ...string) *istiod {
	w.T.Helper()
	work := filepath.Join(w.Dir, "istiod")
	w.check(os.MkdirAll(work, 0o755))
	mesh := filepath.Join(work, "mesh.yaml")
	w.check(os.WriteFile(mesh, []byte("defaultConfig: {discoveryAddress: istiod.istio-system.svc:15012}\n"+strings.Join(settings, "")), 0o644))
	local := func() string { return fmt.Sprintf("127.0.0.1:%d", lab.Port(w.T)) }
	i := &istiod{w: w, grpc: local(), http: local()}
	i.spec = lab.Spec{Name: "istiod", Work: work, Env: []string{
		"POD_NAMESPACE=istio-system", "CLOUD_PLATFORM=none", "ENABLE_CA_SERVER=false", "PILOT_CERT_PROVIDER=none",
		// Filters that only Istio's own build of Envoy has.
		"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false",
	}, Argv: []string{
		lab.Path("bin", "peers", "pilot-discovery"), "discovery", "--registries=", "--configDir", w.config, "--meshConfig", mesh,
		"--httpAddr", i.http, "--grpcAddr", i.grpc, "--httpsAddr", "", "--secureGRPCAddr", "", "--monitoringAddr", local(),
		"--ctrlz_port", fmt.Sprint(lab.Port(w.T)), "--shutdownDuration", "1s",
	}}
	i.restart()
	return i
}

// restart starts istiod, again, on the same ports, and waits until it takes connections. Its readiness is no measure: it
// waits for the injector, which only Kubernetes brings.
func (i *istiod) restart() {
	i.w.T.Helper()
	i.Process = i.w.start(i.spec)
	i.w.check(lab.Eventually(30*time.Second, func() error {
		connection, err := net.Dial("tcp", i.grpc)
		if err == nil {
			err = connection.Close()
		}
		return err
	}))
}

// sidecar starts our agent with a certificate, without which the clusters that istiod sends do not get ready. It returns the agent
// once it is ready, and its Envoy's HTTP proxy, host:port.
func (w *world) sidecar(authority *lab.Authority, discovery string) (agent *lab.Sidecar, proxy string) {
	w.T.Helper()
	identity, err := authority.Issue(spiffe, 1001)
	w.check(err)
	certs := filepath.Join(w.Dir, "certs")
	w.check(os.MkdirAll(certs, 0o755))
	w.check(identity.Mount(certs))
	port := lab.Port(w.T)
	agent, err = w.Sidecar(lab.Workload{
		Name: "own", App: "own", Version: "v1", IP: w.Addresses + "1", ProxyPort: port, Discovery: discovery,
		Flags: []string{"--certDir", certs},
	})
	w.check(err)
	w.StopAtEnd("agent", agent)
	w.check(agent.AwaitReady())
	return agent, fmt.Sprintf("127.0.0.1:%d", port)
}

// Our agent gets ready with istiod, and its Envoy presents the certificate that the agent serves; a service and a rule are
// served; a change arrives, and neither that nor the loss of istiod fails a request; an Envoy that starts then serves what istiod
// has sent last; istiod restarts, and the next change arrives in that Envoy.
func TestOurAgentWithIstiod(t *testing.T) {
	w := newWorld(t)
	authority, err := lab.NewAuthority("mesh")
	w.check(err)
	one, two := w.backend("one"), w.backend("two")
	// istiod sometimes does not serve objects that it finds in its files at its start; it serves those that come later.
	server := w.istiod()
	w.write("echo.yaml", entry("echo", "240.1.2.3", one)+aside)
	w.write("two.yaml", entry("two", "240.1.2.5", two))
	w.write("secure.yaml", entry("secure", "240.1.2.4", w.mutual(authority, "secure.test"))+ofTheMesh)

	agent, proxy := w.sidecar(authority, server.grpc)
	w.answers(proxy, "http://secure.test/", spiffe+" 1001")
	w.answers(proxy, "http://echo.test/aside", "two")
	load := w.load(proxy, "http://echo.test/", "one")

	w.write("echo.yaml", entry("echo", "240.1.2.3", two)+aside)
	w.answers(proxy, "http://echo.test/", "two")
	w.check(lab.Eventually(stopLimit, func() error {
		_, err := agent.LastGood()
		return err
	}))
	server.Stop(stopLimit)
	w.check(agent.AwaitReady())
	w.answers(proxy, "http://echo.test/", "two")
	w.Unharmed(load)
	before, err := agent.Envoy()
	w.check(err)
	w.check(syscall.Kill(before, syscall.SIGKILL))
	w.check(lab.Eventually(stopLimit, func() error {
		if now, err := agent.Envoy(); err != nil || now == before {
			return fmt.Errorf("Envoy %d was not replaced: %d, %v", before, now, err)
		}
		return nil
	}))
	w.answers(proxy, "http://echo.test/", "two")
	w.answers(proxy, "http://secure.test/", spiffe+" 1001")
	restarted, err := agent.Envoy()
	w.check(err)
	server.restart()
	w.write("echo.yaml", entry("echo", "240.1.2.3", one)+aside)
	w.answers(proxy, "http://echo.test/", "one")
	if now, err := agent.Envoy(); err != nil || now != restarted {
		t.Errorf("Envoy %d has been restarted: %d, %v", restarted, now, err)
	}
}
