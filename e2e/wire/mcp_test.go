//go:build wire

package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// readsFrom is the line of MeshConfig that has a control plane at host:port be a source of configuration.
func readsFrom(address string) string {
	return fmt.Sprintf("configSources: [{address: \"xds://%s\"}]\n", address)
}

// kinds has an object of every kind but ServiceEntry. Only its VirtualService is about the requests of these tests.
const kinds = `---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: readers, namespace: default}
spec:
  selector: {matchLabels: {app: nobody}}
  action: DENY
  rules: [{from: [{source: {notNamespaces: [default]}}], to: [{operation: {paths: ["/a*"], ports: ["80"]}}]}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: rule, namespace: default}
spec:
  host: two.test
  trafficPolicy:
    connectionPool: {tcp: {maxConnections: 7, connectTimeout: 1.5s}}
    outlierDetection: {consecutive5xxErrors: 3}
  subsets: [{name: v1, labels: {version: v1}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: numbers, namespace: default}
spec:
  host: numbers.test
  trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true, ringHash: {minimumRingSize: 2048}}}}
  subsets:
  - {name: maglev, labels: {version: v1}, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-a, maglev: {tableSize: 5003}}}}}
  - {name: old, labels: {version: v2}, trafficPolicy: {loadBalancer: {consistentHash: {httpQueryParameterName: a, minimumRingSize: 512}}}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate, namespace: edge}
spec: {selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*.test"]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: peer, namespace: edge}
spec: {selector: {matchLabels: {app: edge}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: DISABLE}}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: proxy, namespace: edge}
spec: {selector: {matchLabels: {app: edge}}, concurrency: 0, environmentVariables: {A: b}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: edge}
spec:
  selector: {matchLabels: {app: edge}}
  jwtRules:
  - issuer: one.test
    audiences: [web]
    jwks: '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'
    fromHeaders: [{name: x-token, prefix: "T "}]
    forwardOriginalToken: true
    outputClaimToHeaders: [{header: x-sub, claim: sub}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: side, namespace: edge}
spec: {egress: [{hosts: ["default/*"]}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: entry, namespace: edge}
spec: {address: 10.1.2.3, labels: {app: edge}, weight: 2}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: group, namespace: edge}
spec: {metadata: {labels: {app: edge}}, template: {ports: {http: 8080}, serviceAccount: edge, network: vms}}
` + aside

// kindCount is how many objects kinds has.
const kindCount = 11

// configuration reads what /debug/configz of a control plane, ours or Istio's, shows: kind/namespace/name to spec. MeshConfig is not
// among it, for each has its own.
func configuration(address string) (map[string]any, error) {
	text, err := lab.Get("http://" + address + "/debug/configz")
	if err != nil {
		return nil, err
	}
	var objects []struct {
		Kind, Namespace, Name string
		Metadata              struct{ Namespace, Name string } // Istio's have the names in it
		Spec                  any
	}
	if err := json.Unmarshal([]byte(text), &objects); err != nil {
		return nil, fmt.Errorf("parse configz: %w", err)
	}
	out := map[string]any{}
	for _, o := range objects {
		if o.Kind != "MeshConfig" {
			out[o.Kind+"/"+o.Namespace+o.Metadata.Namespace+"/"+o.Name+o.Metadata.Name] = plain(o.Spec)
		}
	}
	return out, nil
}

// plain returns a value of JSON with each whole number as text: some write a number of 64 bits in quotes.
func plain(value any) any {
	switch v := value.(type) {
	case float64:
		return fmt.Sprint(v)
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	}
	return value
}

// agree waits until two control planes have the same objects, and so many.
func (w *world) agree(one, other string, count int) {
	w.T.Helper()
	w.check(lab.Eventually(30*time.Second, func() error {
		a, err := configuration(one)
		b, failed := configuration(other)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if len(a) != count || !reflect.DeepEqual(a, b) {
			return fmt.Errorf("one has %v\nthe other %v\nwant %d objects, equal", a, b, count)
		}
		return nil
	}))
}

// lose kills a process, as a lack of memory does, and waits until its reader says so in its log.
func (w *world) lose(p, reader *lab.Process, says string) {
	w.T.Helper()
	p.Signal(syscall.SIGKILL)
	_, err := p.Wait(stopLimit)
	w.check(err)
	w.check(lab.Eventually(30*time.Second, func() error {
		if !strings.Contains(reader.Log(), says) {
			return fmt.Errorf("%s has not said %q", reader.Name, says)
		}
		return nil
	}))
}

// controlPlanes is a chain: one reads files, another one reads from it, and an Envoy has its configuration from that.
type controlPlanes struct {
	debug [2]string // host:port of the debug pages of both
	xds   string    // host:port of the reader
	kill  func()    // ends the one that reads files, and waits until the reader knows
	again func()    // starts it again
}

// testControlPlanes shows that objects of every kind arrive as they are, those of the start too, and that a change arrives. When the first
// control plane is killed the other one keeps all objects. When it is back, what changed meanwhile arrives, and what was deleted goes.
// No request fails.
func testControlPlanes(t *testing.T, start func(files, reader *world) controlPlanes) {
	files, reader := newWorld(t), newWorld(t)
	one, two := files.backend("one"), files.backend("two")
	files.write("kinds.yaml", kinds)
	files.write("echo.yaml", entry("echo", "240.1.2.3", one))
	files.write("two.yaml", entry("two", "240.1.2.5", two))
	c := start(files, reader)
	reader.agree(c.debug[0], c.debug[1], kindCount+2)

	authority, err := lab.NewAuthority("mesh")
	reader.check(err)
	_, proxy := reader.sidecar(authority, c.xds)
	load := reader.load(proxy, "http://echo.test/", "one")
	reader.answers(proxy, "http://echo.test/aside", "two")
	files.write("gone.yaml", entry("gone", "240.1.2.6", one))
	reader.answers(proxy, "http://gone.test/", "one")
	files.write("echo.yaml", entry("echo", "240.1.2.3", two))
	reader.answers(proxy, "http://echo.test/", "two")

	c.kill()
	files.write("echo.yaml", entry("echo", "240.1.2.3", one))
	files.write("new.yaml", entry("new", "240.1.2.7", two))
	reader.check(os.Remove(filepath.Join(files.config, "gone.yaml")))
	if kept, err := configuration(c.debug[1]); err != nil || len(kept) != kindCount+3 {
		t.Errorf("without the other it has %v, %v", kept, err)
	}
	reader.answers(proxy, "http://gone.test/", "one")
	c.again()
	reader.answers(proxy, "http://echo.test/", "one")
	reader.answers(proxy, "http://new.test/", "two")
	reader.agree(c.debug[0], c.debug[1], kindCount+3)
	reader.Unharmed(load)
}

// Our discovery has istiod as a source of configuration, and serves an Envoy with it.
func TestDiscoveryReadsIstiod(t *testing.T) {
	testControlPlanes(t, func(files, reader *world) controlPlanes {
		i := files.istiod()
		mesh := filepath.Join(reader.Dir, "mesh.yaml")
		reader.check(os.WriteFile(mesh, []byte(readsFrom(i.grpc)), 0o644))
		reader.serve("--meshConfig", mesh)
		return controlPlanes{
			debug: [2]string{i.http, reader.discovery.HTTP}, xds: reader.discovery.GRPC,
			kill: func() { reader.lose(i.Process, reader.discovery.Process, "source failed, its last groups are served") }, again: i.restart,
		}
	})
}

// istiod has our discovery as its source of configuration, and serves an Envoy with it.
func TestIstiodReadsDiscovery(t *testing.T) {
	testControlPlanes(t, func(files, reader *world) controlPlanes {
		files.serve()
		d := files.discovery
		i := reader.istiod(readsFrom(d.GRPC))
		return controlPlanes{
			debug: [2]string{d.HTTP, i.http}, xds: i.grpc,
			kill: func() { reader.lose(d.Process, i.Process, "connection closed with err") }, again: func() { reader.check(d.Restart()) },
		}
	})
}
