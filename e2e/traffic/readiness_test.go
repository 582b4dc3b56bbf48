package traffic

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The conditions of an endpoint as an EndpointSlice has them.
const (
	ready       = "ready: true, serving: true, terminating: false"
	notReady    = "ready: false, serving: false, terminating: false"
	terminating = "ready: false, serving: true, terminating: true"
	ended       = "ready: false, serving: false, terminating: true"
)

// A Service scales from one Pod to eight and back, and a rollout fails, under load: endpoints that are not ready receive
// no request, whatever their share and whatever a DestinationRule says, and no request fails. When none is ready, those
// that end and still serve are called; when there is none of these either, the answer is 503.
func TestUnreadyEndpointsGetNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Apply("DestinationRule threshold", "host: threshold\ntrafficPolicy: {outlierDetection: {consecutive5xxErrors: 0, minHealthPercent: 60}}",
		"DestinationRule hash", "host: hash\ntrafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user}}}",
		"DestinationRule subset", "host: subset\nsubsets: [{name: all}]",
		"VirtualService subset", "hosts: [subset]\nhttp: [{route: [{destination: {host: subset, subset: all}}]}]")
	d := &deployment{world: w, services: []string{"plain", "threshold", "hash", "subset"}}
	for i := range 8 {
		d.pods = append(d.pods, &pod{Backend: w.Backend(fmt.Sprint(i))})
	}
	d.set(ready, 0)
	p := w.SidecarEnvoy("client", "")
	for _, s := range d.services {
		p.Until(lab.From("0"), "http://"+s+".default.svc.cluster.local/")
		d.loads = append(d.loads, lab.StartLoad(p.HTTP, "http://"+s+".default.svc.cluster.local/", 2, 1))
	}

	d.set(notReady, 1, 2, 3, 4, 5, 6, 7)
	d.arrived(p)
	d.served()
	for i := 1; i < 8; i++ {
		d.set(ready, i)
		d.arrived(p)
	}
	d.served()
	d.set(terminating, 1, 2, 3, 4, 5, 6, 7)
	d.arrived(p)
	d.served()
	d.set(ended, 1, 2, 3, 4, 5, 6, 7)
	d.arrived(p)
	d.served()
	d.set("", 3, 4, 5, 6, 7)
	d.set(notReady, 1, 2) // a rollout whose Pods never get ready
	d.arrived(p)
	d.served()
	d.set(terminating, 0) // as if its node was drained meanwhile
	d.arrived(p)
	d.served()
	for _, load := range d.loads {
		lab.Unharmed(t, load)
	}
	d.loads = nil
	w.replay(p)

	d.set(ended, 0)
	d.arrived(p)
	for _, s := range d.services {
		p.Until(lab.Status(http.StatusServiceUnavailable), "http://"+s+".default.svc.cluster.local/")
	}
	w.replay(p)
	d.unasked()
}

// deployment is the Pods of several Services.
type deployment struct {
	*world
	services []string
	pods     []*pod
	loads    []*lab.Load // that run
}

// pod is one of them. A Pod that is not ready answers 500, which no proxy repeats.
type pod struct {
	*lab.Backend
	conditions string // "" if it does not exist
	asked      int64  // requests until it was no longer ready
}

func (p *pod) serves() bool { return p.conditions == ready || p.conditions == terminating }

// set gives Pods these conditions, in the order in which they happen: a program serves before it is ready.
func (d *deployment) set(conditions string, pods ...int) {
	d.T.Helper()
	for _, i := range pods {
		d.pods[i].conditions = conditions
		if d.pods[i].serves() {
			d.pods[i].Status.Store(http.StatusOK)
		}
	}
	var text strings.Builder
	for _, s := range d.services {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {clusterIP: 240.0.0.%[2]d, selector: {app: %[1]s}, ports: [{name: http, port: 80}]}\n",
			s, 1+len(s))
		for i, p := range d.pods {
			if p.conditions != "" {
				fmt.Fprintf(&text, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-%[2]d, labels: {kubernetes.io/service-name: %[1]s}}\n"+
					"addressType: IPv4\nports: [{name: http, port: %[3]d}]\nendpoints: [{addresses: [%[4]s], conditions: {%[5]s}}]\n", s, i, p.Port, p.IP, p.conditions)
			}
		}
	}
	path := filepath.Join(d.Config, "services.yaml")
	d.Check(os.WriteFile(path+"~", []byte(text.String()), 0o644))
	d.Check(os.Rename(path+"~", path))
}

// arrived waits until Envoy has the endpoints, and no request is under way to others. From then on, what is not ready fails.
func (d *deployment) arrived(p *lab.Proxy) {
	d.T.Helper()
	var serving, usable int64
	for _, pod := range d.pods {
		if pod.serves() {
			serving++
		}
		if pod.conditions == ready {
			usable++
		}
	}
	if usable == 0 {
		usable = serving
	}
	d.Check(lab.Eventually(lab.StopLimit, func() error {
		for _, s := range d.services {
			subset := ""
			if s == "subset" {
				subset = "all"
			}
			cluster := fmt.Sprintf(`^cluster\.outbound\|80\|%s\|%s\.default\.svc\.cluster\.local\.membership_`, subset, s)
			if n, of := p.Stat(cluster+"healthy$"), p.Stat(cluster+"total$"); n != usable || of != usable { // else their locality would lose a share of its traffic
				return fmt.Errorf("Envoy uses %d of %d endpoints of %s, want %d of %d", n, of, s, usable, usable)
			}
		}
		return nil
	}))
	for _, load := range d.loads {
		d.Check(load.Turn())
	}
	for _, pod := range d.pods {
		if !pod.serves() && pod.Status.Swap(http.StatusInternalServerError) == http.StatusOK {
			pod.asked = pod.Requests.Load()
		}
	}
}

// served waits for further requests of each load.
func (d *deployment) served() {
	d.T.Helper()
	from := make([]int64, len(d.loads))
	for i, load := range d.loads {
		from[i] = load.Requests()
	}
	for i, load := range d.loads {
		d.Check(lab.Eventually(lab.StopLimit, func() error {
			if n := load.Requests() - from[i]; n < 200 {
				return fmt.Errorf("%d requests were answered, want 200", n)
			}
			return nil
		}))
	}
	d.unasked()
}

// unasked fails the test if a Pod was called while it was not ready.
func (d *deployment) unasked() {
	d.T.Helper()
	for _, pod := range d.pods {
		if n := pod.Requests.Load() - pod.asked; !pod.serves() && n != 0 {
			d.T.Errorf("pod %s received %d requests though its conditions are %q", pod.Name, n, pod.conditions)
		}
	}
}
