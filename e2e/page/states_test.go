//go:build browser

package page

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	mesh "github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// openFacts opens the page of made-up facts.
func openFacts(t *testing.T, f mesh.Facts) (b *browser, server *httptest.Server) {
	server = httptest.NewServer(mesh.New(&mesh.Notifier{}, func() mesh.Facts { return f }, func() []string { return nil }).Handler())
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	b = openBrowser(t)
	b.navigate(server.URL + "/")
	b.await(lab.StopLimit, "document.body.dataset.shown && document.querySelector('#graph svg')")
	return b, server
}

// everyState are facts with each state that the page knows.
func everyState() mesh.Facts {
	f := mesh.Facts{Now: time.Now(), Faults: []string{"source Consul: it failed"}}
	var services []*model.Service
	for host, kinds := range map[string][]model.Health{
		"all.test": {model.HealthHealthy}, "half.test": {model.HealthHealthy, model.HealthUnhealthy}, "none.test": {model.HealthUnhealthy}, "out.test": {model.HealthHealthy},
	} {
		s := &model.Service{Right: model.RightFull, Host: host, Namespace: "shop", Name: host, Resolution: model.ResolutionStatic, ExportTo: []string{"."}, Ports: []model.Port{{Name: "http", Number: 80}}}
		if host == "out.test" {
			s.Resolution = model.ResolutionDNS
		}
		for i, health := range kinds {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.0.0.%d", i+1), Health: health})
		}
		services = append(services, s)
	}
	f.Mesh = model.New(slices.Values([]model.Group{{Services: services}}))
	for _, state := range []protocol.State{protocol.StateSynced, protocol.StateStale, protocol.StateNacked, protocol.StateNotSent} {
		f.Proxies = append(f.Proxies, proxystatus.Proxy{Role: "sidecar", Namespace: "shop", Name: string(state), State: state, Version: "envoy 1.40.0", Connected: f.Now})
	}
	f.Callers = []model.Proxy{{Namespace: "shop", Name: "near"}, {Namespace: "away", Name: "far"}}
	for _, waiting := range []int{0, 2} {
		f.Pushes = append(f.Pushes, ads.Push{Pushed: f.Now, Since: f.Now, Last: f.Now.Add(time.Millisecond), Proxies: 3, Waiting: waiting, Cause: []string{"config/VirtualService/shop/a"}})
	}
	return f
}

// Each state has a text or mark of its own beside its colour, and another dash in the graph. What is drawn stands out from its background also in grey and in the colours of a
// device that forces its own.
func TestStatesNeedNoColour(t *testing.T) {
	b, server := openFacts(t, everyState())
	var cells []struct{ Kind, Text string }
	b.eval(`[...document.querySelectorAll('#proxies td:first-child, #services td:first-child, #changes td:nth-child(4)')].map(c => ({kind: c.className, text: c.innerText}))`, &cells)
	var got []string
	of := map[string]string{} // the kind of a mark
	for _, c := range cells {
		got = append(got, c.Kind+" "+c.Text)
		mark := string([]rune(c.Text)[:1])
		if kind, found := of[mark]; found && kind != c.Kind {
			t.Errorf("the mark %s is of %q and of %q", mark, kind, c.Kind)
		}
		of[mark] = c.Kind
	}
	slices.Sort(got)
	want := []string{
		" all 3", " ↗ 1 of 1", "bad ✗ 0 of 1", "bad ✗ NACKED", "good ✓ 1 of 1", "good ✓ SYNCED", "warn ! 1 of 2", "warn 1 of 3", "warn ? NOT SENT", "warn … STALE",
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("states are\n%q, want\n%q", got, want)
	}
	b.await(lab.StopLimit, has("alarm-line", "✗ 1 thing is wrong"))
	b.await(lab.StopLimit, drawn("graph", "shop ✓")+" && "+drawn("graph", "away ✗ does not see it"))
	b.await(lab.StopLimit, `getComputedStyle(document.querySelector('#graph path.no')).strokeDasharray !== getComputedStyle(document.querySelector('#graph path:not(.no)')).strokeDasharray`)
	for _, media := range [][]string{
		{"prefers-color-scheme", "light"},
		{"prefers-color-scheme", "dark"},
		{"prefers-color-scheme", "light", "forced-colors", "active"},
		{"prefers-color-scheme", "dark", "forced-colors", "active"},
	} {
		b.media(media...)
		b.await(lab.StopLimit, fmt.Sprintf("matchMedia('(forced-colors: active)').matches === %t", len(media) > 2))
		var faint []string
		b.eval(contrasts, &faint)
		for _, fault := range faint {
			t.Errorf("%v: %s", media, fault)
		}
	}
	b.nothingWrong(server.URL)
}

// contrasts is an expression: what is drawn with less contrast of luminance than WCAG wants: 3 for what is not text, 4.5 for text.
const contrasts = `(() => {
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((a, b) => b - a); return (x + .05) / (y + .05); };
	const card = getComputedStyle(document.querySelector('section.wide')).backgroundColor, box = getComputedStyle(document.querySelector('#graph rect')).fill;
	const faint = [];
	const check = (what, selector, property, on, least) => {
		const all = document.querySelectorAll(selector);
		if (!all.length) faint.push(what + ': there is none');
		for (const e of all) { const c = getComputedStyle(e)[property], is = ratio(c, on); if (is < least) faint.push(what + ': ' + c + ' on ' + on + ' is ' + is.toFixed(2)); }
	};
	check('a bar', '#chart .bar', 'fill', card, 3);
	check('a line', '#graph path', 'stroke', card, 3);
	check('the box of the service', '#graph rect.focus', 'stroke', card, 3);
	check('a text in a box', '#graph g text', 'fill', box, 4.5);
	check('a weight', '#graph text.weight', 'fill', card, 4.5);
	for (const kind of ['bad', 'warn', 'good']) check('a state ' + kind, 'td.' + kind, 'color', card, 4.5);
	return faint;
})()`
