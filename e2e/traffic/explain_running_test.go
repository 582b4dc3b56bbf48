package traffic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A running discovery is asked about a request of a connected proxy, which need not be described: explain says what its Envoy does then.
// What that Envoy has is what it was sent, until another one's is compared.
func TestExplainOfARunningDiscovery(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "productpage", "reviews-v1", "reviews-v2", "details")
	says := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(m.Bin, "discovery"), append(args, "--httpAddr", m.Discovery.HTTP)...).CombinedOutput()
		return string(out), err
	}
	reviews := func() (road explain.Road) {
		out, err := says("explain", "--from", "default/productpage", "--to", "reviews:9080", "--path", "/reviews/0", "-o", "json")
		if err != nil {
			t.Fatal(out)
		}
		m.Check(json.Unmarshal([]byte(out), &road))
		return road
	}
	road := reviews()
	if !road.Connected || !strings.HasPrefix(road.Proxy, "sidecar~"+m.Address(11)+"~productpage.default~") || len(road.Outcomes) == 0 {
		t.Errorf("got %+v", road)
	}
	same := func(name string) error {
		out, err := says("config", name+".default", "--diff", "--agentAddr", m.Sidecars[name].Admin)
		if err != nil || out != "Envoy has what discovery has sent\n"+proxystatus.NotCompared+"\n" {
			return fmt.Errorf("%s: %v, %s", name, err, out)
		}
		return nil
	}
	for _, name := range []string{"productpage", "reviews-v2"} {
		m.Check(lab.Eventually(lab.StopLimit, func() error { return same(name) }))
	}
	out, err := says("config", "productpage.default", "--diff", "--agentAddr", m.Sidecars["details"].Admin)
	if err == nil || !strings.Contains(out, "resources differ") || !strings.HasPrefix(out, `node productpage.default differs: the Envoy behind that agent is "sidecar~`) {
		t.Errorf("another Envoy is alike: %v, %s", err, out)
	}
	out, err = says("explain", "--from", "default/nobody", "--to", "reviews:9080")
	if err == nil || !strings.Contains(out, "no workload default/nobody: want one of") {
		t.Errorf("an unknown workload: %v, %s", err, out)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.Discovery.HTTP+"/debug/explain?from=a&to=b", nil)
	m.Check(err)
	request.Host = "rebound.test"
	answer, err := http.DefaultClient.Do(request)
	m.Check(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a page that was made to resolve to this host gets %d", answer.StatusCode)
	}
}
