package traffic

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/examine"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// explained is the mesh that explain is asked about: the services a.test with two versions, b.test, and one without an endpoint.
const explained = `
	hosts: [a.test]
	http:
	- match: [{headers: {end-user: {exact: jason}}}, {queryParams: {beta: {}}}, {uri: {regex: "/v2/[0-9]+"}}, {method: {exact: DELETE}}]
	  route: [{destination: {host: a.test, subset: v2}}]
	- match: [{withoutHeaders: {x-token: {exact: secret}}, uri: {prefix: /private}}]
	  directResponse: {status: 403, body: {string: no token}}
	- match: [{uri: {prefix: /Case}, ignoreUriCase: true}]
	  rewrite: {uri: /case, authority: other.test}
	  route: [{destination: {host: a.test, subset: v1}}]
	- match: [{uri: {prefix: /missing}}]
	  route: [{destination: {host: a.test, subset: v3}}]
	- match: [{uri: {exact: /empty}}]
	  route: [{destination: {host: empty.test}}]
	- {match: [{uri: {prefix: /strip}}], rewrite: {uri: /}, route: [{destination: {host: b.test}}]}
	- {match: [{uri: {prefix: /swap}}], rewrite: {uriRegexRewrite: {match: "^/swap/(.*)/(.*)$", rewrite: "/\\2/\\1"}}, route: [{destination: {host: b.test}}]}
	- {match: [{uri: {exact: /old}}], redirect: {uri: /new, authority: new.test, redirectCode: 308}}
	- {match: [{uri: {prefix: /p/}}], redirect: {prefixRewrite: /q/}}
	- match: [{uri: {exact: /abort}}]
	  fault: {abort: {httpStatus: 418, percentage: {value: 100}}}
	  route: [{destination: {host: a.test}}]
	- match: [{uri: {exact: /half}}]
	  fault: {abort: {httpStatus: 500, percentage: {value: 50}}}
	  route: [{destination: {host: a.test, subset: v1}, weight: 60}, {destination: {host: a.test, subset: v2}, weight: 30}, {destination: {host: empty.test}, weight: 10}]
	- match: [{uri: {exact: /cors}}]
	  route: [{destination: {host: a.test, subset: v1}}]
	  corsPolicy: {allowOrigins: [{exact: "https://good.test"}], allowMethods: [GET, PUT]}
	- match: [{headers: {x-n: {prefix: a}}, scheme: {exact: http}, authority: {prefix: a}}]
	  route: [{destination: {host: b.test}}]
	- match: [{uri: {prefix: /a}}, {uri: {prefix: /v2}}, {uri: {exact: /}}]
	  route: [{destination: {host: a.test, subset: v1}}]
`

// logged is the MeshConfig whose access log truths reads.
const logged = `
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
accessLogFile: /dev/stdout
accessLogFormat: "truth %REQ(X-NUMBER)% %RESPONSE_CODE% %RESPONSE_FLAGS% %UPSTREAM_CLUSTER_RAW%\n"
`

// truth is what the real Envoy did with a request, by its access log.
type truth struct {
	status  int
	flags   string
	cluster string
}

// TestExplainIsTrue compares what explain says of generated requests with what the real Envoy did: status, response flag, cluster, and the
// path and host that the server got.
func TestExplainIsTrue(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte(logged), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--meshConfig", settings)
	versions(w, "a.test")
	w.Service("b.test", w.Backend("b"))
	w.Service("empty.test")
	w.Apply("VirtualService a", explained)
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.Status(418), "http://a.test/abort")
	p.Until(lab.From("b"), "http://b.test/")

	objects := w.objects(settings)
	mesh := examine.Mesh{Settings: model.Settings{LoopbackEndpoints: true}}.Of(objects)
	_, port, _ := strings.Cut(p.HTTP, ":")
	w.compare(p, mesh, &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.HTTP})}}, explain.Question{
		From:     "sidecar~127.0.0.1~client.default~default.svc.cluster.local",
		Metadata: map[string]string{"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": port},
	}, 3000, 12)
}

// TestExplainOfGatewaysIsTrue does the same for a gateway: of two VirtualServices of one host, at two ports, of which one redirects.
func TestExplainOfGatewaysIsTrue(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte(logged), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "--meshConfig", settings)
	versions(w, "a.test")
	w.Service("b.test", w.Backend("b"))
	w.Service("empty.test")
	bind := w.Address()
	w.Apply("Gateway gw", strings.ReplaceAll(`
		selector: {gateway: gw}
		servers:
		- {port: {number: 18080, name: http, protocol: HTTP}, bind: BIND, hosts: [a.test, "*.test"]}
		- {port: {number: 18081, name: redirect, protocol: HTTP}, bind: BIND, hosts: ["*"], tls: {httpsRedirect: true}}
	`, "BIND", bind),
		"VirtualService b", "hosts: [a.test, b.test]\ngateways: [gw]\nhttp: [{match: [{uri: {prefix: /nothing}}], redirect: {uri: /}}, {match: [{uri: {prefix: /v2}}], route: [{destination: {host: b.test}}]}]",
		"VirtualService c", strings.Replace(explained, "hosts: [a.test]", "hosts: [a.test]\n\tgateways: [gw]", 1))
	p := w.GatewayEnvoy("gw")
	w.Await(lab.ClientTo(bind+":18080", nil), "http://a.test/abort", lab.Status(418))
	w.Await(lab.ClientTo(bind+":18081", nil), "http://a.test/", lab.Status(301))
	mesh := examine.Mesh{Settings: model.Settings{LoopbackEndpoints: true}}.Of(w.objects(settings))
	for port, kinds := range map[string]int{"18080": 10, "18081": 1} {
		w.compare(p, mesh, lab.ClientTo(bind+":"+port, nil), explain.Question{
			From: "router~" + bind + "~gw.default~default.svc.cluster.local", Address: bind + ":" + port,
			Metadata: map[string]string{"NAMESPACE": "default", "LABELS": "gateway=gw"},
		}, 1000, kinds)
	}
}

// compare sends generated requests, and asks explain about each. as has the fields of the question that are the same for all. It is an error if fewer than
// kinds of outcomes are seen.
func (w *world) compare(p *lab.Proxy, mesh *model.Mesh, client *http.Client, as explain.Question, requests, kinds int) {
	t := w.T
	t.Helper()
	seed := rand.Uint64()
	draw := rand.New(rand.NewPCG(seed, 0))
	asked, got := make([]explain.Question, requests), make([]lab.Answer, requests)
	first := len(truths(p.Log()))
	for i := range requests {
		q := generated(draw)
		q.From, q.Metadata, q.Address = as.From, as.Metadata, as.Address
		header := []string{"x-number", fmt.Sprint(first + i)}
		for _, h := range q.Header {
			name, value, _ := strings.Cut(h, ":")
			header = append(header, name, value)
		}
		asked[i] = q
		var err error
		got[i], err = lab.Exchange(client, q.Method, "http://"+q.To+q.Path, header...)
		w.Check(err)
	}
	var done map[int]truth
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if done = truths(p.Log()); len(done) < first+requests {
			return fmt.Errorf("the access log has %d of %d requests", len(done)-first, requests)
		}
		return nil
	}))
	seen, faults := map[string]int{}, 0
	for i, q := range asked {
		road, err := q.Answer(mesh)
		w.Check(err)
		kind, holds := held(road, done[first+i], got[i])
		seen[kind]++
		if !holds && faults < 20 {
			faults++
			t.Errorf("seed %d, request %d: %s %s%s %q: Envoy did %+v, the server got %s of %s; explain says\n%s",
				seed, i, q.Method, q.To, q.Path, q.Header, done[first+i], got[i].Echo.Path, got[i].Echo.Host, road.Text())
		}
	}
	t.Logf("outcomes of %d requests: %v", requests, seen)
	if len(seen) < kinds {
		t.Errorf("only %d kinds of outcomes were seen: %v", len(seen), seen)
	}
}

// objects returns what discovery serves: the objects of its directory, and MeshConfig.
func (w *world) objects(settings string) []*model.Object {
	w.T.Helper()
	files, err := filepath.Glob(filepath.Join(w.Config, "*.yaml"))
	w.Check(err)
	text, err := os.ReadFile(settings)
	w.Check(err)
	mesh, problems := config.DecodeSettings("MeshConfig", settings, text)
	all := []*model.Object{mesh}
	for _, name := range files {
		text, err := os.ReadFile(name)
		w.Check(err)
		objects, found := config.Decode(name, text)
		all, problems = append(all, objects...), append(problems, found...)
	}
	if config.HasErrors(problems) {
		w.T.Fatal(problems)
	}
	return all
}

// held returns the kind of what happened, and whether it is one of the outcomes.
func held(road explain.Road, did truth, got lab.Answer) (kind string, holds bool) {
	kind = fmt.Sprintf("%d %s %s", did.status, did.flags, did.cluster)
	return kind, slices.ContainsFunc(road.Outcomes, func(o explain.Outcome) bool {
		if o.Status != 0 {
			return o.Status == did.status && (o.Flag == did.flags || o.Flag == "" && did.flags == "-")
		}
		return o.Cluster == did.cluster && did.flags == "-" && did.status == 200 && got.Echo.Path == o.Path && got.Echo.Host == o.Host
	})
}

// truths reads the access log.
func truths(log string) map[int]truth {
	out := map[int]truth{}
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 5 || fields[0] != "truth" {
			continue
		}
		number, err := strconv.Atoi(fields[1])
		status, _ := strconv.Atoi(fields[2])
		if err == nil {
			out[number] = truth{status, fields[3], fields[4]}
		}
	}
	return out
}

// generated returns a request made of parts that the rules tell apart, and some that they do not.
func generated(draw *rand.Rand) explain.Question {
	of := func(all ...string) string { return all[draw.IntN(len(all))] }
	q := explain.Question{
		To:     of("a.test", "a.test", "a.test", "a.test", "a.test", "A.test", "a.test:80", "b.test", "empty.test", "unknown.test", "a.test.", "a.test:81"),
		Method: of("GET", "GET", "GET", "DELETE", "OPTIONS", "POST"),
		Path: of("/", "/a", "/ab/c", "/v2/12", "/v2/12/", "/v2/x", "/private", "/privately", "/case/x", "/CASE", "/Case?x=y", "/missing", "/empty", "/empty/", "/strip/abc",
			"/strip", "/strip?q=1", "/swap/a/b", "/swap/a/b/c", "/swap/a", "/old", "/old?x", "/p/x", "/p", "/abort", "/half", "/half", "/cors", "/nothing",
			"/x/../a", "/x/./../old", "/a/%2e%2e/old", "//a", "/a//b", "/%61", "/a%2Fb", "/%4fld"),
	}
	if draw.IntN(4) == 0 && !strings.Contains(q.Path, "?") {
		q.Path += of("?beta", "?beta=1", "?bet=a", "?x=1&beta=2", "?BETA=1", "?b%65ta")
	}
	for _, h := range []string{
		of("", "", "", "end-user:jason"), of("", "", "", "end-user:jasons"), of("", "x-token:secret"), of("", "", "x-n:abc", "x-n:b"),
		of("", "origin:https://good.test", "origin:https://bad.test"), of("", "access-control-request-method:PUT"),
	} {
		if name, _, _ := strings.Cut(h, ":"); h != "" && !slices.ContainsFunc(q.Header, func(o string) bool { return strings.HasPrefix(o, name+":") }) {
			q.Header = append(q.Header, h)
		}
	}
	return q
}
