package traffic

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A Service is deleted and made again, as by `kubectl replace --force`, ten times under load: no request fails. When it
// stays away its host is unknown. What this machine does not make again while a service lingers does not count.
func TestAServiceThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.Backend("one")
	write := func(name, text string) {
		path := filepath.Join(w.Config, name)
		w.Check(os.WriteFile(path+"~", []byte(text), 0o644))
		w.Check(os.Rename(path+"~", path))
	}
	service := func(generation int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: app, uid: u%d}\nspec: {clusterIP: 240.0.0.1, selector: {app: app}, ports: [{name: http, port: 80}]}\n", generation)
	}
	write("slice.yaml", fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: app-1, labels: {kubernetes.io/service-name: app}}\n"+
		"addressType: IPv4\nports: [{name: http, port: %d}]\nendpoints: [{addresses: [%s], conditions: {ready: true}}]\n", b.Port, b.IP))
	write("service.yaml", service(0))
	p := w.SidecarEnvoy("client", "")
	const url = "http://app.default.svc.cluster.local/"
	p.Until(lab.From("one"), url)
	read := func(change func()) {
		t.Helper()
		before := strings.Count(w.Discovery.Log(), `msg="configuration read"`)
		change()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if strings.Count(w.Discovery.Log(), `msg="configuration read"`) == before {
				return fmt.Errorf("discovery has not read the change:\n%s", w.Discovery.Log())
			}
			return nil
		}))
	}
	remove := func() { w.Check(os.Remove(filepath.Join(w.Config, "service.yaml"))) }
	for made, i := 0, 1; made < 10; i++ {
		if i > 100 {
			t.Fatalf("of %d Services only %d were made again in time", i, made)
		}
		load := lab.StartLoad(p.HTTP, url, 4, 2)
		w.Check(load.Turn())
		began := time.Now()
		read(remove)
		read(func() { write("service.yaml", service(i)) })
		away, from := time.Since(began), load.Requests()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if n := load.Requests() - from; n < 100 {
				return fmt.Errorf("%d requests were answered, want 100", n)
			}
			return nil
		}))
		if away > discovery.Linger/2 {
			load.Stop()
			w.settled(p) // it was gone, perhaps
			continue
		}
		lab.Unharmed(t, load)
		made++
	}
	w.replay(p)
	read(remove)
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if a, err := p.Get(url); err == nil && a.Status == http.StatusOK {
			return errors.New("the Service still answers")
		}
		return nil
	}))
}
