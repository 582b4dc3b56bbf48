//go:build browser

package page

import (
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// routed sends one request alone to v2: a POST of /v2 with a header.
const routed = "hosts: [reviews.test]\nhttp:\n- name: one\n  match: [{method: {exact: POST}, uri: {prefix: /v2}, headers: {end-user: {exact: jason}}}]\n" +
	"  route: [{destination: {host: reviews.test, subset: v2}}]\n- name: all\n  route: [{destination: {host: reviews.test, subset: v1}}]"

// By keys alone, from the top of the page: filter, choose a service, and have a request explained, with each field of the form.
func TestPageByKeyboard(t *testing.T) {
	w, b, base := openMesh(t)
	w.Apply("VirtualService reviews", routed)
	b.await(lab.StopLimit, drawn("graph", "100 %"))

	t.Log("the key / leads to the filter from anywhere")
	b.key("/")
	b.await(lab.StopLimit, "document.activeElement.id === 'filter'")
	b.typed("RATINGS")
	b.await(lab.StopLimit, has("services", "ratings.test")+" && !"+has("services", "reviews.test")+" && !"+has("proxies", "default/web")+" && "+has("focus", "ratings.test"))

	t.Log("the key Tab from the top")
	b.navigate(base) // unlike Page.reload it returns when the old page is gone
	b.await(lab.StopLimit, "document.body.dataset.shown && document.activeElement === document.body && "+has("services", "reviews.test"))
	b.tab("document.activeElement.className === 'skip'")
	b.visible()
	b.tab("document.activeElement.id === 'filter'")
	b.visible()
	b.typed("test")
	b.await(lab.StopLimit, has("n-services", "3")+" && "+has("n-proxies", "0 of 2"))
	b.tab("document.activeElement.className === 'host' && document.activeElement.innerText === 'ratings.test'")
	b.visible()
	b.key("Enter")
	b.await(lab.StopLimit, has("focus", "ratings.test"))
	for _, field := range []struct{ name, value string }{
		{"from", "web.default"}, {"to", "reviews.test"}, {"method", "POST"}, {"path", "/v2/x"}, {"header", "end-user: jason"},
	} {
		b.tab("document.activeElement.name === " + quote(field.name))
		b.visible()
		b.typed(field.value) // Tab has selected what stood there
		b.await(lab.StopLimit, "document.activeElement.value === "+quote(field.value))
	}
	b.key("Enter")
	b.await(lab.StopLimit, has("road", "which is connected")+" && "+has("road", "1 one:")+" && "+has("road", "outbound|80|v2|reviews.test"))
	b.tab("document.activeElement.id === 'road'") // its scrolling

	t.Log("without the header it is another route")
	b.eval("document.querySelector('[name=path]').focus()", nil)
	b.tab("document.activeElement.name === 'header'")
	b.typed("end-user: other")
	b.key("Enter")
	b.await(lab.StopLimit, has("road", "2 all:")+" && "+has("road", "end-user")+" && "+has("road", "outbound|80|v1|reviews.test"))
	b.nothingWrong(base)
}

// tab presses Tab until an element has the focus. No element keeps the focus, and none is passed twice.
func (b *browser) tab(until string) {
	b.t.Helper()
	b.eval("globalThis.passed = new Set([document.activeElement])", nil)
	for {
		b.key("Tab")
		var at struct {
			There, New bool
			What       string
		}
		b.eval("(() => { const e = document.activeElement, fresh = !passed.has(e); passed.add(e); return {there: !!("+until+"), new: fresh, what: e.outerHTML.slice(0, 100)}; })()", &at)
		if at.There {
			return
		}
		if !at.New {
			b.t.Fatalf("Tab has come to %s a second time, and never to where %s", at.What, until)
		}
	}
}

// visible checks that what has the focus is in the window, and shows that it has the focus.
func (b *browser) visible() {
	b.t.Helper()
	b.await(lab.StopLimit, `(() => { const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
		return r.width > 0 && r.left >= 0 && r.top >= 0 && r.bottom <= innerHeight && s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2; })()`)
}
