package status

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The index lists every page, and only pages that there are.
func TestIndex(t *testing.T) {
	p := Pages{}
	for _, path := range []string{"/", "/debug", "/debug/"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		p.Handler().ServeHTTP(w, r)
		if w.Code != 200 || w.Body.String() != indexText {
			t.Errorf("%s: %d, %s", path, w.Code, w.Body)
		}
	}
	source := regexp.MustCompile(`/(?:debug|v1)/[a-z_/0-9]+`)
	for path := range p.values() {
		if !strings.Contains(indexText, path) {
			t.Errorf("%s is not in the index", path)
		}
	}
	for _, path := range source.FindAllString(indexText, -1) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://192.0.2.1"+path, nil) // of another host: each page refuses it, and no other
		r.RemoteAddr = "192.0.2.7:1"
		p.Handler().ServeHTTP(w, r)
		if w.Code != 403 {
			t.Errorf("%s is in the index, and answers %d", path, w.Code)
		}
	}
}
