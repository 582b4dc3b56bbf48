package traffic

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A request that fails at a listener from discovery is told by the agent beside it, since its metadata asks discovery for records.
func TestRequestsOfAMeshAreRecorded(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "details")
	proxy, status := lab.Port(t), lab.Port(t)
	client, err := m.Sidecar(lab.Workload{
		Name: "client", App: "client", IP: m.Address(30), ProxyPort: proxy, Discovery: m.Discovery.GRPC, Flags: []string{"--statusPort", fmt.Sprint(status)},
	})
	m.Check(err)
	t.Cleanup(func() { client.Stop(lab.StopLimit) })
	m.Check(client.AwaitReady())
	through := fmt.Sprintf("127.0.0.1:%d", proxy)
	_, _ = lab.GetThrough(through, "http://details:9080/details/0") // the server's own business, whatever it answers
	get := func(url string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+through+"/x?key=s3cret", nil)
		m.Check(err)
		request.Host = url
		response, err := http.DefaultClient.Do(request)
		m.Check(err)
		response.Body.Close()
	}
	get("ratings:9080") // declared, and has no endpoint that serves
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		out, err := exec.Command(lab.Program("agent"), "why", "--statusPort", fmt.Sprint(status)).CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "The last failed requests:") || !strings.Contains(text, "GET ratings:9080/x?key=… of ") ||
			!strings.Contains(text, "503 U") || strings.Contains(text, "s3cret") {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	}))
}
