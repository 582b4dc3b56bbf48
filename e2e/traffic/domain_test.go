package traffic

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A gateway and a sidecar of another DNS domain reach the services of the cluster by whole hosts. The sidecar reaches none by
// its short name, and is named; where its domain is a service's, that service is another one.
func TestAProxyOfAnotherDomain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--domain", "corp.example")
	at, other, bind := w.Backend("reviews"), w.Backend("other"), w.Address()
	w.Service("reviews.default.svc.corp.example", at)
	w.Service("ratings.default.svc.corp.example", at)
	w.Service("ratings.default.svc.cluster.local", other)
	w.Apply("VirtualService reviews", "hosts: [reviews]\nhttp: [{headers: {response: {add: {routed: \"yes\"}}}, route: [{destination: {host: reviews}}]}]")
	w.Apply("Gateway gateway", fmt.Sprintf("selector: {gateway: edge}\nservers: [{bind: %s, port: {number: 18080, name: http, protocol: HTTP}, hosts: [reviews.test]}]", bind))
	w.Apply("VirtualService edge", "hosts: [reviews.test]\ngateways: [gateway.default.svc.corp.example]\nhttp: [{route: [{destination: {host: reviews}}]}]")

	edge := w.GatewayEnvoy("edge") // of cluster.local
	w.Await(lab.ClientTo(bind+":18080", nil), "http://reviews.test/", lab.From("reviews"))

	w.Apply("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	stranger := w.SidecarEnvoy("stranger", "")
	stranger.Until(lab.From("reviews"), "http://reviews.default.svc.corp.example/")
	stranger.Until(lab.From("other"), "http://ratings/")
	stranger.Until(lab.From("reviews"), "http://ratings.default.svc.corp.example/")
	for _, short := range []string{"reviews", "reviews.default", "reviews.default.svc"} {
		stranger.Until(lab.Status(502), "http://"+short+"/")
	}

	const fault = "the DNS domain of the proxy is default.svc.cluster.local, want NAMESPACE.svc.corp.example"
	w.Check(w.Discovery.AwaitLog(`msg="configuration note" code=wrong-domain`)) // which comes later than the connection
	page, err := lab.Get("http://" + w.Discovery.HTTP + "/debug/adsz")
	w.Check(err)
	named := map[string]int{} // by the message
	for line := range strings.Lines(w.Discovery.Log()) {
		if _, message, _ := strings.Cut(line, `msg="`); strings.Contains(line, fault) {
			message, _, _ = strings.Cut(message, `"`)
			named[message]++
		}
	}
	want := map[string]int{"short names of services do not work for a proxy": 1, "configuration note": 1}
	if strings.Count(page, fault) != 1 || !maps.Equal(named, want) {
		t.Errorf("%q is logged %v, want %v, and is in the page once: %s\n%s", fault, named, want, page, w.Discovery.Log())
	}
	w.replay(edge)
	w.replay(stranger)
}
