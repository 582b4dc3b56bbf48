//go:build kube

package kube

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// kill ends discovery without a warning, once it has kept sources in a directory; "" for nothing to wait for.
func (w *world) kill(d *lab.Discovery, state string, sources ...string) {
	w.t.Helper()
	check(w.t, lab.Eventually(time.Minute, func() error {
		for _, source := range sources {
			if found, err := filepath.Glob(filepath.Join(state, source+"-*.state")); err != nil || len(found) != 1 {
				return fmt.Errorf("of %s there is %v, %v", source, found, err)
			}
		}
		return nil
	}))
	d.Signal(syscall.SIGKILL)
	_, err := d.Wait(stopLimit)
	check(w.t, err)
}

// client starts a sidecar, and returns its outbound HTTP.
func (w *world) client(name, ip string) (proxy string) {
	w.t.Helper()
	number, err := lab.FreePort()
	check(w.t, err)
	w.sidecar(name, "v1", ip, number)
	return fmt.Sprintf("127.0.0.1:%d", number)
}

// A ConfigMap of MeshConfig is broken, or the API server is away, while discovery is restarted: what MeshConfig and an AuthorizationPolicy close
// stays closed, for an Envoy that is new too, and what was served is served. The mend arrives.
func TestAStartWithABrokenConfigMap(t *testing.T) { lab.InNetworkNamespace(t, brokenConfigMap) }

// denied has each sidecar open a port, of which a policy closes a path.
const denied = `
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: echo, namespace: default}
spec:
  workloadSelector: {labels: {app: echo}}
  ingress: [{port: {number: %d, name: http, protocol: HTTP}, defaultEndpoint: "127.0.0.1:%d"}]
  egress: [{hosts: ["*/*"]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: secret, namespace: default}
spec: {selector: {matchLabels: {app: echo}}, action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]}
`

// denies waits until a sidecar serves, and shows that it has never served what the policy closes.
func denies(t *testing.T, ip string, port int) {
	t.Helper()
	check(t, lab.Eventually(time.Minute, func() error {
		if body, err := lab.Get(fmt.Sprintf("http://%s:%d/secret", ip, port)); err == nil {
			t.Errorf("%s has answered with %q, which the policy closes", ip, body)
		}
		_, err := lab.Get(fmt.Sprintf("http://%s:%d/open", ip, port))
		return err
	}))
}

func brokenConfigMap(t *testing.T) {
	w := emptyWorld(t)
	own, opened := backend(t, "own", "127.0.0.1"), lab.Port(t)
	w.hand.apply(istioDefinitions(t) + "\n---\n" + definitionsOf(t, "security.istio.io", 3) + "\n---\n" + echo + fmt.Sprintf(denied, opened, own))
	remotePod(t, w.hand, "home", "10.1.0.10")
	w.hand.apply(`
apiVersion: v1
kind: Pod
metadata: {name: unready, namespace: default, labels: {app: echo}}
spec: {nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: 10.1.0.11, podIPs: [{ip: 10.1.0.11}], conditions: [{type: Ready, status: "False"}]}`)
	settings := func(mesh string) {
		w.hand.apply(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mesh, namespace: default}\ndata: {mesh: %q}", mesh))
	}
	settings("outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	state := filepath.Join(t.TempDir(), "state")
	w.serve("--meshConfigMap", "default/mesh", "--stateDir", state)
	unknown := fmt.Sprintf("http://10.1.0.9:%d/", backend(t, "outside", "10.1.0.9"))
	closed := func(proxy string) {
		t.Helper()
		check(t, answered(proxy, "echo", "home"))
		check(t, lab.Eventually(time.Minute, func() error {
			if body, err := lab.GetThrough(proxy, unknown); err == nil || !strings.Contains(err.Error(), "502") {
				return fmt.Errorf("the answer is %q, %v: want 502", body, err)
			}
			return nil
		}))
	}
	first := w.client("first", "10.1.0.1")
	closed(first)
	denies(t, "10.1.0.1", opened)
	load := lab.StartLoad(first, "http://echo/", 2, 1)

	w.kill(w.discovery, state, "meshConfigMap", "Kubernetes", "kubernetesConfig")
	settings("outboundTrafficPolicy: {mode: REGISTRY_ONLY\n")
	check(t, w.discovery.Restart())
	w.page("/ready?verbose", "source meshConfigMap: 1 groups are from before the start")
	w.page("/ready?verbose", "malformed: MeshConfig: data.mesh, line ")
	closed(w.client("second", "10.1.0.2"))
	denies(t, "10.1.0.2", opened)

	w.kill(w.discovery, "")
	w.server.Signal(syscall.SIGKILL)
	_, err := w.server.Wait(stopLimit)
	check(t, err)
	check(t, w.discovery.Restart())
	w.page("/ready?verbose", "source Kubernetes: 4 groups are from before the start")
	closed(w.client("third", "10.1.0.3"))
	denies(t, "10.1.0.3", opened)
	closed(first)

	w.start()
	settings("outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
	check(t, lab.Eventually(time.Minute, func() error { _, err := lab.GetThrough(first, unknown); return err }))
	w.pageLacks("/ready?verbose", "before the start")
	lab.Unharmed(t, load)
}

// A ClusterRole lacks a kind of object, or Services. A start that remembers is ready and serves all; one that does not is not
// ready, and names the kind. No request fails, and what changes in the other kinds arrives.
func TestAStartWithoutARight(t *testing.T) { lab.InNetworkNamespace(t, withoutARight) }

func withoutARight(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(istioDefinitions(t) + "\n---\n" + echo)
	remotePod(t, w.hand, "home", "10.1.0.10")
	other := func(host string) {
		w.hand.apply(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: other, namespace: default}
spec: {hosts: [%s], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.1.0.9, ports: {http: %d}}]}`,
			host, backend(t, host, "10.1.0.9")))
	}
	other("other.test")
	state := filepath.Join(t.TempDir(), "state")
	w.serve("--stateDir", state)
	remembers, forgets := w.discovery, w.replica(lab.New(t.TempDir()))
	with := w.client("with", "10.1.0.1")
	w.discovery = forgets
	without := w.client("without", "10.1.0.2")
	loads := []*lab.Load{lab.StartLoad(with, "http://echo/", 1, 1), lab.StartLoad(without, "http://echo/", 1, 1)}

	for i, lacks := range []struct{ kind, source, part string }{
		{"workloadgroups", "kubernetesConfig", ", workloadgroups"}, {"services", "Kubernetes", "services, "},
	} {
		w.kill(forgets, "")
		w.kill(remembers, state, "Kubernetes", "kubernetesConfig")
		w.hand.apply(strings.Replace(rights, lacks.part, "", 1))
		if err := forgets.Restart(); err == nil {
			t.Errorf("without %s and without a state it is ready", lacks.kind)
		}
		check(t, lab.Eventually(time.Minute, func() error {
			want := "not ready: the sources have not synced yet: " + lacks.source
			if page, err := lab.Get("http://" + w.discovery.HTTP + "/ready"); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("it says %q, %v, want %q", page, err, want)
			}
			return nil
		}))
		w.sources(lacks.kind)
		w.discovery = remembers
		check(t, remembers.Restart())
		w.page("/ready?verbose", "source "+lacks.source+": a part cannot be read")
		w.page("/ready?verbose", lacks.kind)
		late := w.client(fmt.Sprint("late-", i), fmt.Sprintf("10.1.0.2%d", i))
		check(t, answered(late, "echo", "home"))
		host := fmt.Sprintf("changed-%d.test", i)
		other(host)
		check(t, answeredAt(late, host, host))
		check(t, answered(without, "echo", "home"))

		w.hand.apply(rights)
		w.pageLacks("/ready?verbose", "cannot be read")
		w.discovery = forgets
		w.page("/ready", "ready\n")
		check(t, answeredAt(without, host, host))
	}
	for _, load := range loads {
		lab.Unharmed(t, load)
	}
}
