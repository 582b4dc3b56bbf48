//go:build kube

package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// What is wrong with the proxy of a Pod is an Event of the Pod, once the right to write it is there, and not again after a restart.
func TestPodEvents(t *testing.T) { lab.InNetworkNamespace(t, podEvents) }

func podEvents(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(leases("default"))
	w.hand.apply(istioDefinitions(t))
	w.hand.apply(echo)
	w.hand.apply(`
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: 10.1.0.21, podIPs: [{ip: 10.1.0.21}], conditions: [{type: Ready, status: "True"}]}`)
	w.serve("--writeStatus", "--leaseNamespace", "default")
	s, err := w.lab.Sidecar(lab.Workload{
		Name: "web", App: "web", IP: "10.1.0.21", Discovery: w.discovery.GRPC,
		Flags: []string{"--serviceregistry", "Kubernetes", "--domain", "default.svc." + w.domain.String()},
		Env:   []string{"ISTIO_META_CLUSTER_ID=Kubernetes", "ISTIO_META_DNS_CAPTURE=true"},
	})
	check(t, err)
	t.Cleanup(func() { s.Stop(stopLimit) })
	check(t, s.AwaitReady())
	logged(t, w.discovery, "Events of Pods are not written") // there is no right
	w.hand.apply(statusRights)
	const want = "DnsCapture ISTIO_META_DNS_CAPTURE is true, and INTERCEPTION_MODE is NONE"
	has := func() error {
		if got := w.hand.events("web"); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			return fmt.Errorf("the Events of the Pod are %q, want one that begins %q", got, want)
		}
		return nil
	}
	check(t, lab.Eventually(time.Minute, has))
	logged(t, w.discovery, "Events of Pods are written again")

	// After a restart the Event has the same name, and is there already.
	w.discovery.Stop(stopLimit)
	check(t, w.discovery.Restart())
	next := w.discovery
	check(t, lab.Eventually(time.Minute, func() error {
		notes, err := lab.Get("http://" + next.HTTP + "/debug/notes")
		if err == nil && !strings.Contains(notes, "dns-capture") {
			err = fmt.Errorf("the notes are %s", notes)
		}
		return err
	}))
	check(t, lab.Eventually(time.Minute, has))
	if strings.Count(next.Log(), "Events of Pods are not written") != 1 { // before the right was there
		t.Errorf("after the restart it does not write:\n%s", tail(next.Log()))
	}
}
