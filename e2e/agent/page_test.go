package agent

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The page of an agent with a real Envoy has what failed, the exit of an Envoy that was killed with its flight record, and the
// settings. It is for browsers on this host only.
func TestWhyIsOnThePage(t *testing.T) {
	t.Parallel()
	f := startFailing(t)
	if got := f.get("/empty"); got != http.StatusServiceUnavailable {
		t.Errorf("/empty: status %d, want 503", got)
	}
	const finding = "<td>UH</td><td>1 request to cluster empty: it has no endpoint</td>"
	text := f.page(finding)
	if !strings.Contains(text, "flag --customConfigFile") {
		t.Errorf("lacks the origin of a setting:\n%s", text)
	}
	f.must(syscall.Kill(f.pid("serving"), syscall.SIGKILL))
	f.must(f.awaitStatus(handoverLimit, "a restart", func(a agentStatus) bool { return a.Counts["Envoy serves"] == 2 }))
	text = f.page("-epoch0.json</td>")
	for _, want := range []string{"<strong>ready</strong>", "<td>Envoy ended unasked</td><td>killed by signal 9 (killed)", "Readiness until now: 3 changes"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	request, err := http.NewRequest(http.MethodGet, "http://"+f.status+"/", nil)
	f.must(err)
	_, port, _ := net.SplitHostPort(f.status)
	request.Host = "evil.test:" + port
	response, err := fresh.Do(request)
	f.must(err)
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("by a name that was rebound: status %d, want 403", response.StatusCode)
	}
	for _, own := range ownAddresses() {
		response, err := fresh.Get("http://" + net.JoinHostPort(own, port) + "/")
		f.must(err)
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("by %s: status %d, want 403", own, response.StatusCode)
		}
	}
}

// page waits until the page has a text.
func (f *failing) page(want string) (text string) {
	f.t.Helper()
	f.must(lab.Eventually(handoverLimit, func() (err error) {
		text, err = lab.Get("http://" + f.status + "/")
		if err == nil && !strings.Contains(text, want) {
			return fmt.Errorf("lacks %q:\n%s", want, text)
		}
		return err
	}))
	return text
}
