//go:build browser

package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Suite{Name: "e2e/page"}) }

// picture is where the screenshot of the documentation goes; "" for none.
var picture = flag.String("screenshot", "", "write a screenshot to this PNG")

const split = "hosts: [reviews.test]\nhttp: [{route: [{destination: {host: reviews.test, subset: v1}, weight: %d}, {destination: {host: reviews.test, subset: v2}, weight: %d}]}]"

// text is an expression: the text of an element.
func text(id string) string { return "document.getElementById('" + id + "').innerText" }

func has(id, what string) string { return text(id) + ".includes(" + quote(what) + ")" }

func quote(s string) string { q, _ := json.Marshal(s); return string(q) } // a text always encodes

// The page of a real mesh shows it, is live, finds, explains, by keyboard, without a fault of the console or of axe-core, in light and in dark.
func TestPage(t *testing.T) {
	w := lab.NewWorld(t, crd.Sound)
	w.Service("reviews.test", w.Backend("v1"), w.Backend("v2"))
	w.Service("ratings.test", w.Backend("c"))
	w.Service("empty.test")
	w.Apply("VirtualService reviews", fmt.Sprintf(split, 80, 20), "DestinationRule reviews", "host: reviews.test\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]")
	w.SidecarEnvoy("web", "")
	w.SidecarEnvoy("ratings", "")
	base := "http://" + w.Discovery.HTTP + "/"
	b := openBrowser(t)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 1250, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Page.navigate", map[string]any{"url": base}, nil)
	b.await(lab.StopLimit, "document.body.dataset.shown && "+has("live", "● live"))
	b.await(lab.StopLimit, has("proxies", "✓ SYNCED")+" && "+has("proxies", "default/web")+" && "+has("proxies", "default/ratings"))
	for id, want := range map[string]string{
		"services": "✗ 0 of 0", "registries": "ServiceEntry: 3 services, 3 of 3 endpoints healthy", "focus": "reviews.test", "changes": "ms", "graph": "80 %",
	} {
		b.await(lab.StopLimit, "("+has(id, want)+" || document.getElementById('"+id+"').textContent.includes("+quote(want)+"))")
	}

	t.Log("a weight that is changed in a file")
	var slowest time.Duration
	for i, weight := range []int{70, 35, 5} {
		began := time.Now()
		w.Apply("VirtualService reviews", fmt.Sprintf(split, weight, 100-weight))
		b.await(lab.StopLimit, fmt.Sprintf("document.getElementById('graph').textContent.includes('%d %%')", 100-weight))
		took := time.Since(began)
		t.Logf("change %d is on the page after %s", i, took)
		slowest = max(slowest, took)
	}
	if slowest > time.Second {
		t.Errorf("a change takes %s to the page, want at most a second", slowest)
	}

	t.Log("axe-core, in light and in dark")
	axe, err := os.ReadFile(filepath.Join(w.Bin, "..", "axe.min.js"))
	if err != nil {
		axe, err = os.ReadFile("../../bin/axe.min.js")
	}
	b.check(err)
	b.eval(string(axe)+"; true", nil)
	for _, scheme := range []string{"light", "dark"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		var found []struct {
			ID, Help string
			Nodes    []struct{ HTML string }
		}
		b.eval("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}).then(r => r.violations)", &found)
		for _, v := range found {
			t.Errorf("axe-core, %s: %s: %s: %+v", scheme, v.ID, v.Help, v.Nodes)
		}
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "light"}}}, nil)

	if *picture != "" {
		b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 830, "deviceScaleFactor": 1, "mobile": false}, nil)
		b.screenshot(*picture)
	}

	t.Log("by keyboard")
	b.key("/")
	b.await(lab.StopLimit, "document.activeElement.id === 'filter'")
	b.call("Input.insertText", map[string]any{"text": "RATINGS"}, nil)
	b.await(lab.StopLimit, has("services", "ratings.test")+" && !"+has("services", "reviews.test")+" && !"+has("proxies", "default/web")+" && "+has("focus", "ratings.test"))
	b.eval("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))", nil)
	b.await(lab.StopLimit, has("services", "reviews.test"))
	b.eval("document.querySelector('[name=from]').focus()", nil)
	b.call("Input.insertText", map[string]any{"text": "web.default"}, nil)
	b.eval("document.querySelector('[name=to]').focus()", nil)
	b.call("Input.insertText", map[string]any{"text": "reviews.test"}, nil)
	b.key("Enter")
	b.await(lab.StopLimit, has("road", "which is connected")+" && "+has("road", "VirtualService default/reviews"))

	t.Log("what goes wrong")
	broken := filepath.Join(w.Config, "broken.yaml")
	w.Check(os.WriteFile(broken, []byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: '<img src=x onerror=alert(1)>'}\nspec: {hosts: 5}\n"), 0o644))
	b.await(lab.StopLimit, "document.getElementById('alarm').className === 'bad' && document.getElementById('wrongs').textContent.includes('broken.yaml')")
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
