//go:build wire

package wire

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// pilotAgent is Istio's agent with our Envoy.
type pilotAgent struct {
	*lab.Process
	status string // host:port of its probes
	admin  string // of its Envoy
	http   string // of its Envoy's outbound HTTP
	dns    string // of its name server
	certs  string // directory of its workload's certificate
}

// pilotAgent starts one of the workload istio. By its identity it is known to discovery, if that is asked with mutual TLS.
func (w *world) pilotAgent(identity lab.Identity, delta, mutual bool) *pilotAgent {
	w.T.Helper()
	policy, discovery, env := "NONE", w.discovery.GRPC, []string{fmt.Sprintf("ISTIO_DELTA_XDS=%t", delta)}
	if mutual {
		policy, discovery, env = "MUTUAL_TLS", w.secure, append(env, "ISTIOD_SAN=discovery.test")
	}
	return w.pilotAgentOf("istio", w.Addresses+"1", discovery, policy, identity, env...)
}

// pilotAgentOf starts one in a directory of its own, for it looks for its files below the working directory. The identity
// is in the files where it looks for a workload's certificate, so that it needs no authority; the zero one has no files.
func (w *world) pilotAgentOf(name, ip, discovery, policy string, identity lab.Identity, env ...string) *pilotAgent {
	w.T.Helper()
	at := filepath.Join(w.Dir, name)
	certs := filepath.Join(at, "var/run/secrets/workload-spiffe-credentials")
	state := filepath.Join(at, "var/lib/istio/envoy")
	for _, dir := range []string{certs, state} {
		w.check(os.MkdirAll(dir, 0o755))
	}
	w.check(os.Symlink(lab.Path("bin", "peers", "envoy_bootstrap.json"), filepath.Join(state, "envoy_bootstrap_tmpl.json")))
	if identity.Chain != nil {
		w.check(identity.Mount(certs))
	}

	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	status, admin, proxy := lab.Port(w.T), lab.Port(w.T), lab.Port(w.T)
	a := &pilotAgent{status: local(status), admin: local(admin), http: local(proxy), dns: local(lab.Port(w.T)), certs: certs}
	env = append(env,
		"INSTANCE_IP="+ip, "POD_NAME="+name, "POD_NAMESPACE=default",
		"CLOUD_PLATFORM=none", // else it asks the clouds' metadata servers where it is
		"ISTIO_META_INTERCEPTION_MODE=NONE", fmt.Sprintf("ISTIO_META_HTTP_PROXY_PORT=%d", proxy),
		"ISTIO_META_DNS_CAPTURE=true", "DNS_PROXY_ADDR="+a.dns,
		fmt.Sprintf("ENVOY_STATUS_PORT=%d", lab.Port(w.T)), fmt.Sprintf("ENVOY_PROMETHEUS_PORT=%d", lab.Port(w.T)),
		"MINIMUM_DRAIN_DURATION=1s",
		fmt.Sprintf(`PROXY_CONFIG={"discoveryAddress": %q, "binaryPath": %q, "configPath": "./etc/istio/proxy",
		"statusPort": %d, "proxyAdminPort": %d, "concurrency": 1, "controlPlaneAuthPolicy": %q,
		"terminationDrainDuration": "1s", "drainDuration": "1s"}`, discovery, w.Envoy, status, admin, policy))
	if policy == "MUTUAL_TLS" && identity.Chain != nil {
		env = append(env, "PROV_CERT="+certs)
	}
	a.Process = w.start(lab.Spec{Name: "pilot-agent-" + name, Work: at, Env: env, Argv: []string{
		lab.Path("bin", "peers", "pilot-agent"), "proxy", "sidecar", "--domain", "default.svc.cluster.local", "--log_output_level=default:info",
	}})
	return a
}

// lookup asks its name server for a host.
func (a *pilotAgent) lookup(host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return (&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, a.dns)
	}}).LookupHost(ctx, host+".")
}

// Istio's agent gets ready with our discovery, names captured; its Envoy presents the certificate that the agent serves,
// a new one too; a change of the configuration arrives, and none of it nor a restart of discovery fails a request.
func TestPilotAgent(t *testing.T) {
	for _, delta := range []bool{false, true} {
		for _, mutual := range []bool{false, true} {
			t.Run(fmt.Sprintf("delta=%t,mTLS=%t", delta, mutual), func(t *testing.T) { testPilotAgent(t, delta, mutual) })
		}
	}
}

func testPilotAgent(t *testing.T, delta, mutual bool) {
	w := newWorld(t)
	authority, err := lab.NewAuthority("mesh")
	w.check(err)
	identity := func(serial int64) lab.Identity {
		i, err := authority.Issue(spiffe, serial)
		w.check(err)
		return i
	}
	one, two := w.backend("one"), w.backend("two")
	w.write("echo.yaml", entry("echo", "240.1.2.3", one))
	w.write("secure.yaml", entry("secure", "240.1.2.4", w.mutual(authority, "secure.test"))+ofTheMesh)
	w.serve(w.mutualFlags(authority)...)
	began := time.Now()
	a := w.pilotAgent(identity(1001), delta, mutual)
	w.check(a.AwaitHTTP(30*time.Second, "http://"+a.status+"/healthz/ready"))
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))

	w.answers(a.http, "http://secure.test/", spiffe+" 1001")
	if found, err := a.lookup("echo.test"); err != nil || !slices.Equal(found, []string{"240.1.2.3"}) {
		t.Errorf("echo.test is %v, %v", found, err)
	}
	load := w.load(a.http, "http://echo.test/", "one")
	w.write("echo.yaml", entry("echo", "240.1.2.3", two))
	w.answers(a.http, "http://echo.test/", "two")
	w.check(identity(1002).Mount(a.certs))
	w.answers(a.http, "http://secure.test/", spiffe+" 1002")
	w.discovery.Stop(stopLimit)
	w.check(w.discovery.Restart())
	w.write("echo.yaml", entry("echo", "240.1.2.3", one))
	w.answers(a.http, "http://echo.test/", "one")
	w.Unharmed(load)
	if log := w.discovery.Log(); strings.Contains(log, "refused") || strings.Contains(log, "refuses") {
		t.Error("the proxy refused a part of its configuration")
	}
}

// mutualFlags are discovery's flags for a port of mutual TLS.
func (w *world) mutualFlags(authority *lab.Authority) []string {
	w.T.Helper()
	dir := filepath.Join(w.Dir, "discovery-certs")
	w.check(os.MkdirAll(dir, 0o755))
	identity, err := authority.Issue("discovery.test", 3)
	w.check(err)
	w.check(identity.Mount(dir))
	w.secure = fmt.Sprintf("127.0.0.1:%d", lab.Port(w.T))
	return []string{
		"--secureGRPCAddr", w.secure, "--tlsCertFile", filepath.Join(dir, "cert-chain.pem"),
		"--tlsKeyFile", filepath.Join(dir, "key.pem"), "--caCertFile", filepath.Join(dir, "root-cert.pem"),
	}
}
