package traffic

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
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
	- {match: [{uri: {exact: /limit/one}}], timeout: 600ms, route: [{destination: {host: b.test}}]}
	- match: [{uri: {exact: /limit/each}}]
	  timeout: 10s
	  retries: {attempts: 1, perTryTimeout: 400ms, retryOn: "5xx"}
	  route: [{destination: {host: a.test, subset: v1}}]
	- match: [{uri: {exact: /limit/all}}]
	  timeout: 500ms
	  retries: {attempts: 3, perTryTimeout: 5s, retryOn: "503,504"}
	  route: [{destination: {host: a.test}}]
	- match: [{uri: {exact: /limit/gateway}}]
	  timeout: 700ms
	  retries: {attempts: 2, retryOn: gateway-error}
	  route: [{destination: {host: a.test}}]
	- match: [{headers: {x-n: {prefix: a}}, scheme: {exact: http}, authority: {prefix: a}}]
	  route: [{destination: {host: b.test}}]
	- match: [{uri: {prefix: /a}}, {uri: {prefix: /v2}}, {uri: {exact: /}}]
	  route: [{destination: {host: a.test, subset: v1}}]
`

// closedOff is a part of MeshConfig: unknown hosts are not let through.
const closedOff = "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"

// TestExplainIsTrue compares what explain says of generated requests with what the real Envoy did: status, response flag, cluster, endpoint, time-out and tries,
// and the path and host that the server got. TestLongExplainIsTrue generates more.
func TestExplainIsTrue(t *testing.T) {
	t.Parallel()
	explainSidecar(t, 1500)
}

func explainSidecar(t *testing.T, requests int) {
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte(truth.Logged+closedOff), 0o644); err != nil {
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
	mesh := validation.Mesh{Settings: model.Settings{LoopbackEndpoints: true}}.Of(objects)
	_, port, _ := strings.Cut(p.HTTP, ":")
	w.compare(p, asks(mesh, explain.Question{
		From:     "sidecar~127.0.0.1~client.default~default.svc.cluster.local",
		Metadata: map[string]string{"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": port},
	}), truth.Through(p.HTTP), many(w, requests, ""), 18)
}

// TestExplainOfGatewaysIsTrue does the same for a gateway: of two VirtualServices of one host, at two ports, of which one redirects.
func TestExplainOfGatewaysIsTrue(t *testing.T) {
	t.Parallel()
	explainGateways(t, 500)
}

func explainGateways(t *testing.T, requests int) {
	for name, topology := range map[string]string{"at the edge": "", "behind a load balancer": "defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}\npathNormalization: {normalization: DECODE_AND_MERGE_SLASHES}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explainGateway(t, topology, requests)
		})
	}
}

func explainGateway(t *testing.T, topology string, requests int) {
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(settings, []byte(truth.Logged+closedOff+topology), 0o644); err != nil {
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
	mesh := validation.Mesh{Settings: model.Settings{LoopbackEndpoints: true}}.Of(w.objects(settings))
	for port, kinds := range map[string]int{"18080": 14, "18081": 1} {
		w.compare(p, asks(mesh, explain.Question{
			From: "router~" + bind + "~gw.default~default.svc.cluster.local", Metadata: map[string]string{"NAMESPACE": "default", "LABELS": "gateway=gw"},
		}), truth.Direct(bind+":"+port), many(w, requests, bind+":"+port), kinds)
	}
}

// asks returns what asks the code of the command about objects, as a node of which as says the rest.
func asks(mesh *model.Mesh, as explain.Question) truth.Asked {
	return func(q explain.Question) (explain.Road, error) {
		q.From, q.Metadata = as.From, as.Metadata
		return q.Answer(mesh)
	}
}

// many generates requests to an address; "" for an HTTP proxy.
func many(w *world, n int, address string) (all []*truth.Exchange) {
	seed := rand.Uint64()
	w.T.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	for range n {
		e := generated(draw)
		e.Path = truth.Spelled(draw, e.Path)
		e.Address = address
		all = append(all, e)
	}
	return all
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

// generated returns a request made of parts that the rules tell apart, and some that they do not.
func generated(draw *rand.Rand) *truth.Exchange {
	of := func(all ...string) string { return all[draw.IntN(len(all))] }
	q := explain.Question{
		To:     of("a.test", "a.test", "a.test", "a.test", "a.test", "A.test", "a.test:80", "b.test", "empty.test", "unknown.test", "a.test.", "a.test:81"),
		Method: of("GET", "GET", "GET", "DELETE", "OPTIONS", "POST"),
		Path: of("/", "/a", "/ab/c", "/v2/12", "/v2/12/", "/v2/x", "/private", "/privately", "/case/x", "/CASE", "/Case?x=y", "/missing", "/empty", "/empty/", "/strip/abc",
			"/strip", "/strip?q=1", "/swap/a/b", "/swap/a/b/c", "/swap/a", "/old", "/old?x", "/p/x", "/p", "/abort", "/half", "/half", "/cors", "/nothing",
			"/limit/one", "/limit/each", "/limit/all", "/limit/gateway", "/x/../a", "/x/./../old", "/a/%2e%2e/old", "//a", "/a//b", "/%61", "/a%2Fb", "/%4fld"),
	}
	if draw.IntN(4) == 0 && !strings.Contains(q.Path, "?") {
		q.Path += of("?beta", "?beta=1", "?bet=a", "?x=1&beta=2", "?BETA=1", "?b%65ta")
	}
	for _, h := range []string{
		of("", "", "", "end-user:jason"), of("", "", "", "end-user:jasons"), of("", "x-token:secret"), of("", "", "x-n:abc", "x-n:b"),
		of("", "origin:https://good.test", "origin:https://bad.test"), of("", "access-control-request-method:PUT"),
		of("", "", "", "content-type:application/grpc", "content-type:application/grpc-web", "content-type:application/grpc+proto"),
		of("", "", "x-forwarded-proto:https", "x-forwarded-proto:ftp"),
		of("", "", "x-envoy-upstream-rq-timeout-ms:200", "x-envoy-max-retries:0"), // of which Envoy takes none from outside
	} {
		if name, _, _ := strings.Cut(h, ":"); h != "" && !slices.ContainsFunc(q.Header, func(o string) bool { return strings.HasPrefix(o, name+":") }) {
			q.Header = append(q.Header, h)
		}
	}
	e := &truth.Exchange{Question: q}
	if strings.HasPrefix(q.Path, "/limit/") {
		e.Status = []int{0, 500, 503, 504}[draw.IntN(4)]
		if e.Status == 0 { // slower than any time-out, or a little faster than each
			e.Delay = []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond}[draw.IntN(3)]
		}
	}
	return e
}
