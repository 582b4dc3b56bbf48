//go:build browser

package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Suite{Name: "e2e/page"}) }

// picture is where the screenshot of the documentation goes; "" for none.
var picture = flag.String("screenshot", "", "write a screenshot to this PNG")

const (
	split   = "hosts: [reviews.test]\nhttp: [{route: [{destination: {host: reviews.test, subset: v1}, weight: %d}, {destination: {host: reviews.test, subset: v2}, weight: %d}]}]"
	subsets = "host: reviews.test\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]"
)

// text is an expression: the text of an element.
func text(id string) string { return "document.getElementById('" + id + "').innerText" }

func has(id, what string) string { return text(id) + ".includes(" + quote(what) + ")" }

// drawn is has for the text of a drawing.
func drawn(id, what string) string {
	return "document.getElementById('" + id + "').textContent.includes(" + quote(what) + ")"
}

func quote(s string) string { q, _ := json.Marshal(s); return string(q) } // a text always encodes

// openMesh opens the page of a mesh of two sidecars and three services, once it shows all of it.
func openMesh(t *testing.T) (w *lab.World, b *browser, base string) {
	w = lab.NewWorld(t, crd.Sound)
	w.Service("reviews.test", w.Backend("v1"), w.Backend("v2"))
	w.Service("ratings.test", w.Backend("c"))
	w.Service("empty.test")
	w.Apply("VirtualService reviews", fmt.Sprintf(split, 80, 20), "DestinationRule reviews", subsets)
	w.SidecarEnvoy("web", "")
	w.SidecarEnvoy("ratings", "")
	base = "http://" + w.Discovery.HTTP + "/"
	b = openBrowser(t)
	b.navigate(base)
	b.await(lab.StopLimit, "document.body.dataset.shown && "+has("live", "● live"))
	b.await(lab.StopLimit, has("proxies", "✓ SYNCED")+" && "+has("proxies", "default/web")+" && "+has("proxies", "default/ratings"))
	return w, b, base
}

// The page of a real mesh shows it, is live, and has no fault of the console or of axe-core, in light and in dark, when all is well and when not.
func TestPage(t *testing.T) {
	w, b, base := openMesh(t)
	for id, want := range map[string]string{
		"services": "✗ 0 of 0", "registries": "ServiceEntry: 3 services, 3 of 3 endpoints healthy", "focus": "reviews.test", "changes": "ms", "graph": "80 %",
	} {
		b.await(lab.StopLimit, "("+has(id, want)+" || "+drawn(id, want)+")")
	}

	t.Log("a weight that is changed in a file")
	for i, weight := range []int{70, 35, 5} {
		watch := lab.StartStopwatch()
		w.Apply("VirtualService reviews", fmt.Sprintf(split, weight, 100-weight))
		b.await(lab.StopLimit, drawn("graph", fmt.Sprintf("%d %%", 100-weight)))
		t.Logf("change %d is on the page after %s", i, watch.Took())
		watch.Within(t, time.Second, "a change that comes to the page")
	}
	changes(b)
	b.await(lab.StopLimit, has("alarm", "ServiceEntry default/empty.test")+" && "+has("alarm", "spec.endpoints is empty"))
	w.Remove("ServiceEntry", "empty.test")
	b.await(lab.StopLimit, has("alarm-line", "✓ Nothing is wrong"))
	b.axe("when all is well")
	if *picture != "" {
		b.size(1280, 830)
		b.screenshot(*picture)
	}

	policies(w, b)

	t.Log("what goes wrong")
	broken := filepath.Join(w.Config, "broken.yaml")
	w.Check(os.WriteFile(broken, []byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: '<img src=x onerror=alert(1)>'}\nspec: {hosts: 5}\n"), 0o644))
	b.await(lab.StopLimit, "document.getElementById('alarm').className === 'bad' && document.getElementById('wrongs').textContent.includes('broken.yaml')")
	b.eval("document.getElementById('wrong').open = true; document.querySelector('[name=from]').value = 'web.default'; document.querySelector('[name=to]').value = 'reviews.test'; "+
		"document.querySelector('#explain button').click()", nil)
	b.await(lab.StopLimit, has("road", "which is connected"))
	b.axe("with an alarm and an answer of explain")
	b.nothingWrong(base)
	w.Check(os.Remove(broken))
	b.await(lab.StopLimit, has("alarm-line", "✓ Nothing is wrong"))

	t.Log("discovery is away, and back")
	w.Discovery.Stop(lab.StopLimit)
	b.await(lab.StopLimit, has("live", "○ not live"))
	w.Check(w.Discovery.Restart())
	b.await(lab.StopLimit, has("live", "● live"))
	if log := w.Discovery.Log(); strings.Contains(log, "panic") {
		t.Errorf("discovery has panicked:\n%s", log)
	}
}

// No page of discovery or of an agent leaves a fault in the console, neither by itself nor by the icon that some
// browsers ask for.
func TestConsole(t *testing.T) {
	w := lab.NewWorld(t, crd.Sound)
	port, err := lab.FreePort()
	w.Check(err)
	status := fmt.Sprintf("http://127.0.0.1:%d", port)
	agent, err := w.Sidecar(lab.Workload{
		Name: "web", App: "web", IP: w.Address(), Discovery: w.Discovery.GRPC, Flags: []string{"--statusPort", strconv.Itoa(port)},
	})
	w.Check(err)
	t.Cleanup(func() { agent.Stop(lab.StopLimit) })
	w.Check(agent.AwaitReady())
	b := openBrowser(t)
	discovery, monitoring := "http://"+w.Discovery.HTTP, "http://"+w.Discovery.Monitoring
	for _, url := range []string{
		discovery + "/", discovery + "/debug/", discovery + "/debug/adsz", discovery + "/ready", monitoring + "/metrics", monitoring + "/version",
		status + "/", status + "/status", status + "/healthz/ready", status + "/metrics", status + "/stats/prometheus",
	} {
		b.navigate(url)
		b.await(lab.StopLimit, "location.href === "+quote(url))
		var answered bool
		if b.eval("fetch('/favicon.ico').then(r => r.ok)", &answered); !answered {
			t.Errorf("%s: /favicon.ico is answered by an error", url)
		}
	}
	b.nothingWrong("http://127.0.0.1:")
}

// policies checks that the policies of the graph's service are named, and no others.
func policies(w *lab.World, b *browser) {
	b.t.Helper()
	says := func(want string) {
		b.t.Helper()
		var got string
		if b.eval(text("policies"), &got); got != want {
			b.t.Errorf("of policies the page says %q, want %q", got, want)
		}
	}
	const deny = "selector: {matchLabels: {version: %s}}\naction: DENY\nrules: [{to: [{operation: {paths: [/admin]}}]}]"
	says("")
	w.Apply("AuthorizationPolicy first", fmt.Sprintf(deny, "v1"), "AuthorizationPolicy other", fmt.Sprintf(deny, "c"))
	b.await(lab.StopLimit, has("policies", "DENY default/first"))
	says("Its proxies also ask: DENY default/first")
	w.Remove("AuthorizationPolicy", "first") // no proxy has its labels, which is a thing that is wrong
	w.Remove("AuthorizationPolicy", "other")
	b.await(lab.StopLimit, has("alarm-line", "✓ Nothing is wrong"))
}

// changes checks the newest row of the last changes, and that the chart has a bar for each row, in the order of time, as high as it took.
func changes(b *browser) {
	b.t.Helper()
	b.await(lab.StopLimit, `[...document.querySelector('#changes tr').cells].slice(1).map(c => c.innerText).join('; ').match(/^\S*VirtualService\/default\/reviews; 2; all 2; [\d,]+ ms$/)`)
	type bar struct {
		Title  string
		Height float64
	}
	var seen struct {
		Rows, Bars []bar
		Label      string
	}
	b.eval(`({rows: [...document.querySelectorAll('#changes tr')].reverse().map(r => ({title: r.cells[0].innerText + ': ' + r.cells[4].innerText.replaceAll(',', ''), height: parseInt(r.cells[4].innerText.replaceAll(',', ''))})),
		bars: [...document.querySelectorAll('#chart rect.bar')].map(r => ({title: r.textContent, height: r.height.baseVal.value})), label: document.querySelector('#chart svg').getAttribute('aria-label')})`, &seen)
	if len(seen.Rows) < 4 || len(seen.Rows) != len(seen.Bars) {
		b.t.Fatalf("%d rows of changes and %d bars, want as many of both, and at least 4", len(seen.Rows), len(seen.Bars))
	}
	most := 1.0
	for _, r := range seen.Rows {
		most = max(most, r.Height)
	}
	for i, r := range seen.Rows {
		if height := max(2, 48*r.Height/most); seen.Bars[i].Title != r.Title || seen.Bars[i].Height-height > 0.01 || height-seen.Bars[i].Height > 0.01 {
			b.t.Errorf("bar %d is %+v, and its row %+v", i, seen.Bars[i], r)
		}
	}
	if want := fmt.Sprintf("%d pushes, the longest %.0f ms", len(seen.Rows), most); seen.Label != want {
		b.t.Errorf("the chart is called %q, want %q", seen.Label, want)
	}
}
