package status

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"
)

func TestProfiles(t *testing.T) {
	const gzip, tracing = "\x1f\x8b", "go 1."
	for path, want := range map[string]struct {
		code  int
		holds string
		begin bool // with it
	}{
		"/debug/pprof/":                        {200, "/debug/pprof/heap?debug=1\t", false},
		"/debug/pprof/heap":                    {200, gzip, true},
		"/debug/pprof/heap?gc=1&debug=1":       {200, "heap profile: ", true},
		"/debug/pprof/goroutine?debug=2":       {200, "goroutine ", true},
		"/debug/pprof/profile?seconds=0.01":    {200, gzip, true},
		"/debug/pprof/trace?seconds=0.01":      {200, tracing, true},
		"/debug/pprof/heaps":                   {404, `"heaps" is no profile`, true},
		"/debug/pprof/heap?seconds=1":          {400, "go tool pprof -base", false},
		"/debug/pprof/heap?debug=x":            {400, `debug is "x", want 0, 1 or 2`, true},
		"/debug/pprof/profile?seconds=x":       {400, `seconds is "x", want a number above 0, up to 600`, true},
		"/debug/pprof/profile?seconds=NaN":     {400, `seconds is "NaN"`, true},
		"/debug/pprof/trace?seconds=-1":        {400, `seconds is "-1"`, true},
		"/debug/pprof/trace?seconds=601":       {400, `seconds is "601"`, true},
		"/debug/pprof/profile?seconds=1e300":   {400, `seconds is "1e300"`, true},
		"/debug/pprof/heap/../../debug/config": {307, "", false},
	} {
		t.Run(path, func(t *testing.T) {
			w := ask(t.Context(), path)
			body := w.Body.String()
			if w.Code != want.code || !strings.Contains(body, want.holds) || want.begin && !strings.HasPrefix(body, want.holds) {
				t.Errorf("%d, %.200q, want %d, %q", w.Code, body, want.code, want.holds)
			}
		})
	}
}

func ask(ctx context.Context, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost:8080"
	w := httptest.NewRecorder()
	pages(true, nil).Handler().ServeHTTP(w, r)
	return w
}

// Only one profile of the processor is recorded at a time, and none for a caller that has left.
func TestAProfileEnds(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	if w := ask(left, "/debug/pprof/profile?seconds=600"); w.Code != 200 {
		t.Errorf("for a caller that left: %d %s", w.Code, w.Body)
	}
	if err := pprof.StartCPUProfile(httptest.NewRecorder()); err != nil {
		t.Fatalf("the profile of a caller that left is still recorded: %v", err)
	}
	defer pprof.StopCPUProfile()
	if w := ask(t.Context(), "/debug/pprof/profile?seconds=600"); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "profile not recorded: ") {
		t.Errorf("beside another: %d %s, want 409", w.Code, w.Body)
	}
}
