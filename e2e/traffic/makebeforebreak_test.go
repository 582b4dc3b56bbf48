package traffic

import (
	"fmt"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Routes move between clusters, subsets get another name, services go and come back, all under constant load: no
// request fails.
func TestMakeBeforeBreak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v1, v2 := w.Backend("v1"), w.Backend("v2")
	w.Service("app.test", v1, v2)
	w.Service("one.test", v1)
	w.Service("two.test", v2)
	move := func(i int) {
		to, gone := "one.test", "two.test"
		if i%2 == 1 {
			to, gone = gone, to
		}
		w.Service(to, map[string]*lab.Backend{"one.test": v1, "two.test": v2}[to])
		w.Apply("VirtualService virtual", "hosts: [virtual.test]\nhttp: [{route: [{destination: {host: "+to+"}}]}]")
		if i > 0 {
			w.Remove("ServiceEntry", gone)
		}
	}
	rename := func(i int) {
		w.ApplyAtOnce("app.yaml",
			"VirtualService app", fmt.Sprintf("hosts: [app.test]\nhttp: [{route: [{destination: {host: app.test, subset: s%d}}]}]", i),
			"DestinationRule app", fmt.Sprintf("host: app.test\nsubsets: [{name: s%d, labels: {version: v%d}}]", i, 1+i%2),
		)
	}
	rename(0)
	move(0)
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("v1"), "http://app.test/")
	p.Until(lab.From("v1"), "http://virtual.test/")
	routed := lab.StartLoad(p.HTTP, "http://app.test/", 4, 2)
	moved := lab.StartLoad(p.HTTP, "http://virtual.test/", 4, 2)
	for i := 1; i <= 10; i++ {
		rename(i)
		move(i)
		want := fmt.Sprintf("v%d", 1+i%2)
		p.Until(lab.From(want), "http://app.test/")
		p.Until(lab.From(want), "http://virtual.test/")
		if n := p.Stat(fmt.Sprintf(`^cluster\.outbound\|80\|s%d\|app\.test\.upstream_rq_total$`, i)); n == 0 {
			t.Errorf("Envoy counts no request to the subset's cluster under its new name, s%d", i)
		}
	}
	lab.Unharmed(t, routed)
	lab.Unharmed(t, moved)
	w.replay(p)
}
