//go:build kube

package kube

import (
	"encoding/base64"
	"fmt"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/statedir"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An object is broken, and every replica is replaced, without a state directory: it is served in its last good form, for a new Envoy too, until it is
// mended. Without the right to keep that form, and with a Secret that somebody has written, the others are served, and the fault is named.
func TestReplicasWithABrokenObject(t *testing.T) { lab.InNetworkNamespace(t, brokenObject) }

// external is a ServiceEntry with one endpoint.
const external = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: default}
spec: {hosts: [outside.test], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: %s, ports: {http: %d}}]}`

func brokenObject(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(istioDefinitions(t) + "\n---\n" + leases("default"))
	port := backend(t, "outside", "10.1.0.9")
	w.hand.apply(fmt.Sprintf(external, "10.1.0.9", port))
	flags := []string{"--writeStatus", "--leaseNamespace", "default"}
	w.serve(flags...)
	const name, secret = "pilotlight-discovery-last-good", "Secret default/pilotlight-discovery-last-good for the last good forms of broken objects: it "
	first := w.client("first", "10.1.0.1")
	serves := func(proxy string) {
		t.Helper()
		check(t, lab.Eventually(time.Minute, func() error { _, err := lab.GetThrough(proxy, "http://outside.test/"); return err }))
	}
	serves(first)

	// There is no right, and then there is.
	w.page("/ready?verbose", secret+"cannot be read")
	w.hand.apply(allow("default", "forms", may("list, create", "", "secrets"), mayNamed(name, "update", "", "secrets")))
	kept := func(objects int) {
		t.Helper()
		check(t, lab.Eventually(2*time.Minute, func() error {
			found, err := w.hand.secret(name)
			if err != nil {
				return err
			}
			encoded, _, _ := unstructured.NestedString(found.Object, "data", "forms")
			text, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return err
			}
			forms, err := statedir.Groups(text, "kubernetesConfig", statedir.Of{Domain: w.domain.String(), Cluster: "Kubernetes", Scope: "namespaces []"})
			if err == nil && len(forms) != objects {
				err = fmt.Errorf("the Secret has %d objects, want %d", len(forms), objects)
			}
			return err
		}))
	}
	again := func() {
		t.Helper()
		w.discovery.Signal(syscall.SIGKILL)
		_, err := w.discovery.Wait(stopLimit)
		check(t, err)
		check(t, w.discovery.Restart())
		w.page("/ready?verbose", "spec.endpoints[0].address")
	}
	w.hand.apply(fmt.Sprintf(external, "10.1.0.900", port))
	w.page("/ready?verbose", "spec.endpoints[0].address")
	kept(1)
	load := lab.StartLoad(first, "http://outside.test/", 2, 1)
	again()
	w.pageLacks("/ready?verbose", secret)
	serves(w.client("second", "10.1.0.2"))
	again() // the form is that of the Secret now, and kept on
	kept(1)
	serves(w.client("third", "10.1.0.3"))
	lab.Unharmed(t, load)

	// What nobody can read does not keep it from starting, and is replaced.
	w.hand.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: default}\nstringData: {forms: a}")
	again()
	w.page("/ready?verbose", secret+"is not whole")
	w.hand.apply(fmt.Sprintf(external, "10.1.0.9", port))
	serves(first)
	kept(0)
}
