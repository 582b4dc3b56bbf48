package e2e

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
	v1, v2 := w.backend("v1"), w.backend("v2")
	w.service("app.test", v1, v2)
	w.service("one.test", v1)
	w.service("two.test", v2)
	move := func(i int) {
		to, gone := "one.test", "two.test"
		if i%2 == 1 {
			to, gone = gone, to
		}
		w.service(to, map[string]*backend{"one.test": v1, "two.test": v2}[to])
		w.apply("VirtualService virtual", "hosts: [virtual.test]\nhttp: [{route: [{destination: {host: "+to+"}}]}]")
		if i > 0 {
			w.remove("ServiceEntry", gone)
		}
	}
	rename := func(i int) {
		w.applyAtOnce("app.yaml",
			"VirtualService app", fmt.Sprintf("hosts: [app.test]\nhttp: [{route: [{destination: {host: app.test, subset: s%d}}]}]", i),
			"DestinationRule app", fmt.Sprintf("host: app.test\nsubsets: [{name: s%d, labels: {version: v%d}}]", i, 1+i%2),
		)
	}
	rename(0)
	move(0)
	p := w.sidecar("client", "")
	p.until(from("v1"), "http://app.test/")
	p.until(from("v1"), "http://virtual.test/")
	routed := lab.StartLoad(p.http, "http://app.test/", 4, 2)
	moved := lab.StartLoad(p.http, "http://virtual.test/", 4, 2)
	for i := 1; i <= 10; i++ {
		rename(i)
		move(i)
		want := fmt.Sprintf("v%d", 1+i%2)
		p.until(from(want), "http://app.test/")
		p.until(from(want), "http://virtual.test/")
		if n := p.stat(fmt.Sprintf(`^cluster\.outbound\|80\|s%d\|app\.test\.upstream_rq_total$`, i)); n == 0 {
			t.Errorf("Envoy counts no request to the subset's cluster under its new name, s%d", i)
		}
	}
	unharmed(t, routed)
	unharmed(t, moved)
}
