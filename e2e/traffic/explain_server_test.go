package traffic

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// TestExplainOfServersIsTrue compares what explain says of both sides of a connection with what two real Envoys did: the client's TLS against the
// server's PeerAuthentication, and policies at the server.
func TestExplainOfServersIsTrue(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte(truth.Logged+closedOff), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newPeers(t, "--meshConfig", settings)
	own := p.metadata("client", meshClient)
	client := p.SidecarEnvoyWith("client", "", own)
	_, port, _ := strings.Cut(client.HTTP, ":")
	said := map[string]string{"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": port, "LABELS": "app=client", "SERVICE_ACCOUNT": "client"}
	atServer := map[string]string{"INTERCEPTION_MODE": "NONE", "LABELS": "app=server"}
	for _, key := range []string{"TLS_CLIENT_CERT_CHAIN", "TLS_CLIENT_KEY", "TLS_CLIENT_ROOT_CERT"} {
		said[key] = own[key].(string)
		atServer[key] = strings.Replace(said[key], "client.", "server.", 1)
	}
	web := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: client.HTTP})}}
	const tls, policy = "host: app.test\ntrafficPolicy: {tls: {mode: %s, insecureSkipVerify: %t}}", "AuthorizationPolicy a"
	asked, roads, seen := 0, map[int]explain.Road{}, map[string]int{}
	for _, step := range []struct {
		peers, tls, policy string
		want               string // status of /, and of /secret
	}{
		{"", "", "", "200 200"},
		{"STRICT", "", "", "200 200"},
		{"STRICT", "DISABLE", "", "503 503"},
		{"STRICT", "ISTIO_MUTUAL", "", "200 200"}, // between any two of 503, whose flags differ: it shows when a step has arrived
		{"STRICT", "SIMPLE", "", "503 503"},
		{"PERMISSIVE", "DISABLE", "", "200 200"},
		{"PERMISSIVE", "SIMPLE", "", "503 503"},
		{"", "", "", "200 200"},
		{"DISABLE", "ISTIO_MUTUAL", "", "503 503"},
		{"DISABLE", "", "", "200 200"},
		{"DISABLE", "SIMPLE", "", "503 503"},
		{"STRICT", "", "rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/client]}}]}]", "200 200"},
		{"STRICT", "", "rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/other]}}]}]", "403 403"},
		{"", "DISABLE", "rules: [{from: [{source: {namespaces: [default]}}]}]", "403 403"},
		{"", "DISABLE", "action: DENY\nrules: [{from: [{source: {notPrincipals: ['*']}}], to: [{operation: {paths: [/secret]}}]}]", "200 403"},
		{"", "", "action: DENY\nrules: [{from: [{source: {namespaces: [default]}}], to: [{operation: {paths: ['/sec*'], methods: [GET]}}]}]", "200 403"},
		{"", "", "rules: [{to: [{operation: {paths: [/]}}]}, {when: [{key: 'request.headers[x-a]', values: [b]}]}]", "200 403"},
		{"", "", "rules: []", "403 403"},
	} {
		for name, spec := range map[string]string{
			"PeerAuthentication default": or(step.peers, "mtls: {mode: "+step.peers+"}"), "DestinationRule app": or(step.tls, fmt.Sprintf(tls, step.tls, step.tls == "SIMPLE")), policy: step.policy,
		} {
			if spec != "" {
				p.Apply(name, spec)
			} else if err := os.Remove(filepath.Join(p.Config, strings.ToLower(strings.Replace(name, " ", "-", 1))+".yaml")); !errors.Is(err, os.ErrNotExist) {
				p.Check(err)
			}
		}
		mesh := validation.Mesh{Settings: model.Settings{LoopbackEndpoints: true}}.Of(p.objects(settings))
		host := fmt.Sprintf("app.test:%d", p.ports["HTTP"])
		judged := map[string]explain.Road{}
		for _, path := range []string{"/", "/secret"} {
			road, err := explain.Question{
				From: "sidecar~127.0.0.1~client.default~default.svc.cluster.local", Metadata: said, ServerMetadata: atServer, To: host, Method: "GET", Path: path,
			}.Answer(mesh)
			p.Check(err)
			judged[path] = road
		}
		p.Check(lab.Eventually(lab.StopLimit, func() error {
			settled := map[int]explain.Road{} // the change has reached both Envoys if ten requests in a row are as wanted
			for range 5 {
				var status []string
				for _, path := range []string{"/", "/secret"} {
					asked++
					got, err := lab.Exchange(web, "GET", "http://"+host+path, "x-number", fmt.Sprint(asked))
					if err != nil {
						return err
					}
					settled[asked] = judged[path]
					status = append(status, fmt.Sprint(got.Status))
				}
				if got := strings.Join(status, " "); got != step.want {
					return fmt.Errorf("%+v: the statuses are %s; explain says\n%s", step, got, judged["/"].Text())
				}
			}
			maps.Copy(roads, settled)
			return nil
		}))
	}
	var done map[string]truth.Did
	p.Check(lab.Eventually(lab.StopLimit, func() error { // Envoy writes its log every ten seconds
		if done = truth.Read(client.Log()); len(done) < asked {
			return fmt.Errorf("the access log has %d of %d requests", len(done), asked)
		}
		return nil
	}))
	for number, road := range roads {
		did := done[fmt.Sprint(number)]
		seen[did.Kind()]++
		if !slices.ContainsFunc(road.Outcomes, isServers(did)) {
			t.Errorf("Envoy did %+v; explain says\n%s", did, road.Text())
		}
	}
	t.Logf("outcomes: %v", seen)
}

func or(condition, text string) string {
	if condition == "" {
		return ""
	}
	return text
}

// isServers returns what reports whether an outcome at a server is what Envoy did.
func isServers(did truth.Did) func(explain.Outcome) bool {
	return func(o explain.Outcome) bool {
		return did.Flagged(o.Flag) && (o.Status == did.Status || o.Status == 0 && did.Status == 200) && (did.Upstream == "-" || truth.Reaches(o, did.Upstream))
	}
}
