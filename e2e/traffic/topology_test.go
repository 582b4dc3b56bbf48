package traffic

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// Behind a load balancer a gateway tells the client's own address: by x-forwarded-for of a proxy that the mesh trusts, or by
// the PROXY header that this gateway asks for.
func TestGatewayBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	mesh := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(mesh, []byte("defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}\n"+truth.Logged), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--meshConfig", mesh)
	w.Service("app.test", w.Backend("app"))
	trusting, headed := w.Address(), w.Address()
	for name, bind := range map[string]string{"trusting": trusting, "headed": headed} {
		w.Apply("Gateway "+name, fmt.Sprintf("selector: {gateway: %s}\nservers: [{port: {number: 18080, name: http, protocol: HTTP}, bind: %s, hosts: ['*']}]", name, bind),
			"VirtualService "+name, fmt.Sprintf("hosts: [app.test]\ngateways: [%s]\nhttp: [{route: [{destination: {host: app.test}}]}]", name))
	}
	p := w.GatewayEnvoy("trusting")
	w.RunEnvoy("router~"+w.Address()+"~headed.default~default.svc.cluster.local", "", map[string]any{
		"NAMESPACE": "default", "LABELS": map[string]string{"gateway": "headed"},
		"PROXY_CONFIG": map[string]any{"gatewayTopology": map[string]any{"proxyProtocol": map[string]any{}}},
	})
	client := lab.ClientTo(trusting+":18080", nil)
	w.Await(client, "http://app.test/", lab.From("app"))
	a, err := lab.Exchange(client, http.MethodGet, "http://app.test/", "X-Forwarded-For", "203.0.113.9")
	w.Check(err)
	if got := a.Echo.Header.Get("X-Envoy-External-Address"); got != "203.0.113.9" {
		t.Errorf("by x-forwarded-for the client is %q: %v", got, a.Echo.Header)
	}
	w.replay(p)

	w.Check(lab.Eventually(lab.StopLimit, func() error {
		c, err := net.DialTimeout("tcp", headed+":18080", time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		fmt.Fprintf(c, "PROXY TCP4 203.0.113.7 %s 4000 80\r\nGET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n", headed)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body := make([]byte, 4096)
		n, _ := response.Body.Read(body)
		if response.StatusCode != 200 || !strings.Contains(string(body[:n]), `"X-Forwarded-For":["203.0.113.7"]`) {
			return fmt.Errorf("by the PROXY header: %d, %s", response.StatusCode, body[:n])
		}
		return nil
	}))
}
