package agent

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The page of an agent with a real Envoy has what failed, the exit of an Envoy that was killed with its flight record, and the
// settings. It is for browsers on this host only.
func TestWhyIsOnThePage(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-abcdef-0123456789"
	f := startFailingWith(t, func(text string) string { // a secret in what is configured, and in what Envoy prints
		return strings.ReplaceAll(text, `"http_filters": [`, `"access_log": [{"name": "stderr", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StderrAccessLog",
			"log_format": {"text_format_source": {"inline_string": "asked with authorization: Bearer `+secret+`\n"}}}}], "http_filters": [`)
	})
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
	text = f.page("-epoch0.json</td>", "asked with authorization: Bearer [masked]", "<strong>ready</strong>",
		"<td>Envoy ended unasked</td><td>killed by signal 9 (killed)", "Readiness until now: 3 changes")
	record := f.flightRecord(text)
	for where, text := range map[string]string{"page": text, "flight record": record} {
		if strings.Contains(text, secret) {
			t.Errorf("the %s has a secret:\n%s", where, text)
		}
	}
	if !strings.Contains(record, "asked with authorization: Bearer [masked]") || !strings.Contains(record, `"bootstrap"`) {
		t.Errorf("the flight record lacks Envoy's line, or its bootstrap:\n%s", record)
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

// flightRecord reads the flight record that the page names.
func (f *failing) flightRecord(page string) string {
	f.t.Helper()
	path := regexp.MustCompile(`<td>(/[^<]*-epoch0\.json)</td>`).FindStringSubmatch(page)
	if path == nil {
		f.t.Fatalf("the page names no flight record of epoch 0:\n%s", page)
	}
	text, err := os.ReadFile(path[1])
	f.must(err)
	return string(text)
}

// Of more failures of a real Envoy the page has the last twenty, the newest first.
func TestThePageHasTheLastTwentyFailures(t *testing.T) {
	t.Parallel()
	f := startRecording(t)
	const sent, shown = 25, 20
	for i := range sent {
		if got := f.get(fmt.Sprintf("/empty/%02d", i)); got != http.StatusServiceUnavailable {
			t.Errorf("request %d: status %d, want 503", i, got)
		}
	}
	_, table, found := strings.Cut(f.page(fmt.Sprintf("/empty/%02d of ", sent-1)), "<h2>The last failed requests</h2>")
	table, _, _ = strings.Cut(table, "</table>")
	var got, want []string
	for _, m := range regexp.MustCompile(`<td>UH</td><td>503</td><td>GET [^<]*/empty/(\d+) of [^<]*</td>`).FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	for i := range shown {
		want = append(want, fmt.Sprintf("%02d", sent-1-i))
	}
	if !found || !slices.Equal(got, want) {
		t.Errorf("the page has the failures %q, want %q:\n%s", got, want, table)
	}
}

// page waits until the page has all of these texts.
func (f *failing) page(wants ...string) (text string) {
	f.t.Helper()
	f.must(lab.Eventually(handoverLimit, func() (err error) {
		text, err = lab.Get("http://" + f.status + "/")
		for _, want := range wants {
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("lacks %q:\n%s", want, text)
			}
		}
		return err
	}))
	return text
}
