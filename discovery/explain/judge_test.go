package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/validation"
)

// read reads a message from JSON in which ' stands for ".
func read[M proto.Message](t testing.TB, m M, text string) M {
	t.Helper()
	if err := protojson.Unmarshal([]byte(strings.ReplaceAll(text, "'", `"`)), m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return m
}

const manager = `{'name': 'hcm', 'typedConfig': {'@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
	'statPrefix': 'a', 'normalizePath': true, 'stripTrailingHostDot': true, 'rds': {'routeConfigName': '80'}, 'httpFilters': [
		{'name': 'envoy.filters.http.fault', 'typedConfig': {'@type': 'type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault'}},
		{'name': 'envoy.filters.http.cors', 'typedConfig': {'@type': 'type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors'}},
		{'name': 'envoy.filters.http.router'}]}}`

func tcpTo(cluster string) string {
	return `{'name': 'tcp', 'typedConfig': {'@type': 'type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy', 'statPrefix': 'a', 'cluster': '` + cluster + `'}}`
}

// listed finds clusters of a list, with endpoints of the same name.
func listed(all []*clusterv3.Cluster, endpoints []*endpointv3.ClusterLoadAssignment) func(string) (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) {
	return func(name string) (c *clusterv3.Cluster, e *endpointv3.ClusterLoadAssignment) {
		for _, one := range all {
			if one.Name == name {
				c = one
			}
		}
		for _, one := range endpoints {
			if one.ClusterName == name {
				e = one
			}
		}
		return c, e
	}
}

// servedWith returns what a sidecar has whose HTTP port 80 leads to these virtual hosts, with the clusters good, empty and sick.
func servedWith(t testing.TB, hosts string) Served {
	t.Helper()
	return Served{
		Listeners: []*listenerv3.Listener{
			read(t, &listenerv3.Listener{}, `{'name': '0.0.0.0_80', 'trafficDirection': 'OUTBOUND', 'bindToPort': false, 'address': {'socketAddress': {'address': '0.0.0.0', 'portValue': 80}},
				'listenerFilters': [{'name': 'envoy.filters.listener.http_inspector'}], 'defaultFilterChain': {'filters': [`+tcpTo("good")+`]},
				'filterChains': [{'filterChainMatch': {'transportProtocol': 'raw_buffer', 'applicationProtocols': ['http/1.1', 'h2c']}, 'filters': [`+manager+`]}]}`),
			read(t, &listenerv3.Listener{}, `{'name': 'virtualOutbound', 'trafficDirection': 'OUTBOUND', 'useOriginalDst': true, 'address': {'socketAddress': {'address': '0.0.0.0', 'portValue': 15001}},
				'filterChains': [{'name': 'loop', 'filterChainMatch': {'destinationPort': 15001}, 'filters': [`+tcpTo("empty")+`]}], 'defaultFilterChain': {'name': 'rest', 'filters': [`+tcpTo("pass")+`]}}`),
		},
		Routes: []*routev3.RouteConfiguration{read(t, &routev3.RouteConfiguration{}, `{'name': '80', 'ignorePortInHostMatching': true, 'virtualHosts': [`+hosts+`]}`)},
		Cluster: listed([]*clusterv3.Cluster{
			{Name: "good", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}},
			{Name: "empty", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}},
			read(t, &clusterv3.Cluster{}, `{'name': 'sick', 'type': 'EDS', 'commonLbConfig': {'healthyPanicThreshold': {}}}`),
			{Name: "pass", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}},
		}, []*endpointv3.ClusterLoadAssignment{
			read(t, &endpointv3.ClusterLoadAssignment{}, `{'clusterName': 'good', 'endpoints': [`+endpoints(0, "10.0.0.1", "")+`]}`),
			read(t, &endpointv3.ClusterLoadAssignment{}, `{'clusterName': 'sick', 'endpoints': [`+endpoints(0, "10.0.0.2", "UNHEALTHY")+`]}`),
		}),
	}
}

func endpoints(priority int, address, health string) string {
	if health == "" {
		health = "HEALTHY"
	}
	return fmt.Sprintf(`{'priority': %d, 'lbEndpoints': [{'healthStatus': '%s', 'endpoint': {'address': {'socketAddress': {'address': '%s', 'portValue': 80}}}}]}`, priority, health, address)
}

// summary writes outcomes in a line: "70 % good 10.0.0.1:80, 30 % 503 NC".
func summary(a Answer) string {
	var out []string
	for _, o := range a.Outcomes {
		parts := []string{percent(o.Share)}
		if o.Status != 0 {
			parts = append(parts, fmt.Sprint(o.Status))
		}
		if o.Flag != "" {
			parts = append(parts, o.Flag)
		}
		if o.Status == 0 && o.Cluster != "" {
			parts = append(parts, o.Cluster)
		}
		for _, e := range o.Endpoints {
			parts = append(parts, e.Address)
		}
		out = append(out, strings.Join(parts, " "))
	}
	return strings.Join(out, ", ")
}

var service = netip.MustParseAddrPort("10.9.9.9:80")

func host(domains, routes string) string {
	return `{'name': 'h', 'domains': [` + domains + `], 'routes': [` + routes + `]}`
}

func TestActions(t *testing.T) {
	const fault = `'typedPerFilterConfig': {'envoy.filters.http.fault': {'@type': 'type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault', 'abort': `
	for name, row := range map[string]struct{ route, want string }{
		"one cluster":        {`{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}}`, "100 % good 10.0.0.1:80"},
		"weights":            {`{'match': {'prefix': '/'}, 'route': {'weightedClusters': {'clusters': [{'name': 'good', 'weight': 70}, {'name': 'gone', 'weight': 30}]}}}`, "70 % good 10.0.0.1:80, 30 % 503 NC"},
		"no cluster":         {`{'match': {'prefix': '/'}, 'route': {'cluster': 'gone'}}`, "100 % 503 NC"},
		"no endpoint":        {`{'match': {'prefix': '/'}, 'route': {'cluster': 'empty'}}`, "100 % 503 UH"},
		"unhealthy":          {`{'match': {'prefix': '/'}, 'route': {'cluster': 'sick'}}`, "100 % 503 UH"},
		"original":           {`{'match': {'prefix': '/'}, 'route': {'cluster': 'pass'}}`, "100 % pass"},
		"direct response":    {`{'match': {'prefix': '/'}, 'directResponse': {'status': 418}}`, "100 % 418"},
		"redirect":           {`{'match': {'prefix': '/'}, 'redirect': {'hostRedirect': 'a'}}`, "100 % 301"},
		"redirect with 308":  {`{'match': {'prefix': '/'}, 'redirect': {'responseCode': 'PERMANENT_REDIRECT'}}`, "100 % 308"},
		"no route":           {`{'match': {'path': '/else'}, 'route': {'cluster': 'good'}}`, "100 % 404 NR"},
		"fault":              {`{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}, ` + fault + `{'httpStatus': 555, 'percentage': {'numerator': 25}}}}}`, "25 % 555 FI, 75 % good 10.0.0.1:80"},
		"fault always":       {`{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}, ` + fault + `{'httpStatus': 555, 'percentage': {'numerator': 1000000, 'denominator': 'MILLION'}}}}}`, "100 % 555 FI"},
		"fault of gRPC":      {`{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}, ` + fault + `{'grpcStatus': 14, 'percentage': {'numerator': 100}}}}}`, "100 % 503 FI"},
		"fault without part": {`{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}, ` + fault + `{'httpStatus': 555}}}}`, "100 % good 10.0.0.1:80"},
	} {
		got := Judge(servedWith(t, host("'a.test'", row.route)), Request{To: service, Host: "a.test"}, nil)
		if summary(got) != row.want {
			t.Errorf("%s: %s, want %s", name, summary(got), row.want)
		}
	}
}

// What a proxy itself answers to gRPC is 200 with an error of gRPC: that of the fault, or the one for the HTTP status. A server's answer is its own.
func TestAnswersToGRPC(t *testing.T) {
	const fault = `{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}, 'typedPerFilterConfig': {'envoy.filters.http.fault':
		{'@type': 'type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault', 'abort': {'percentage': {'numerator': 100}, `
	for name, row := range map[string]struct{ kind, route, want string }{
		"no cluster":         {"application/grpc", `{'match': {'prefix': '/'}, 'route': {'cluster': 'gone'}}`, "200 14 NC"},
		"no route":           {"application/grpc+proto", `{'match': {'path': '/else'}, 'route': {'cluster': 'good'}}`, "200 12 NR"},
		"a redirect":         {"application/grpc", `{'match': {'prefix': '/'}, 'redirect': {'hostRedirect': 'a'}}`, "200 2 "},
		"a fault of HTTP":    {"application/grpc", fault + `'httpStatus': 429}}}}`, "200 14 FI"},
		"a fault of gRPC":    {"application/grpc", fault + `'grpcStatus': 5}}}}`, "200 5 FI"},
		"one for HTTP":       {"text/plain", fault + `'grpcStatus': 5}}}}`, "404  FI"},
		"gRPC for a browser": {"application/grpc-web", `{'match': {'prefix': '/'}, 'route': {'cluster': 'gone'}}`, "503  NC"},
		"a server":           {"application/grpc", `{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}}`, "0  "},
	} {
		a := Judge(servedWith(t, host("'a.test'", row.route)), Request{To: service, Host: "a.test", Header: map[string][]string{"Content-Type": {row.kind}}}, nil)
		if o := a.Outcomes[0]; fmt.Sprintf("%d %s %s", o.Status, o.GRPC, o.Flag) != row.want || strings.Contains(o.text(), "grpc-status") != (o.GRPC != "") {
			t.Errorf("%s: %s, want %s", name, o.text(), row.want)
		}
	}
}

func TestHosts(t *testing.T) {
	var hosts []string
	for i, domains := range []string{"'a.test', 'a'", "'*.b.test'", "'*.c.b.test', '*-d.test'", "'e.*'", "'*'", "'[fd00::1]'"} {
		hosts = append(hosts, fmt.Sprintf(`{'name': '%d', 'domains': [%s], 'routes': [{'match': {'prefix': '/'}, 'directResponse': {'status': %d}}]}`, i, domains, 200+i))
	}
	s := servedWith(t, strings.Join(hosts, ","))
	for name, want := range map[string]int{
		"a.test": 200, "A.TEST:8080": 200, "a": 200, "a.test.": 200, "b.test": 204, "x.b.test": 201, "x.c.b.test": 202, "c.b.test": 201, "x-d.test": 202,
		"-d.test": 204, "e.org": 203, "e.": 204, "nobody": 204, "[fd00::1]:80": 205, "[fd00::1]": 205,
	} {
		if got := Judge(s, Request{To: service, Host: name}, nil).Outcomes[0].Status; got != want {
			t.Errorf("%s: the virtual host %d, want %d", name, got-200, want-200)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, row := range []struct{ match, request, want string }{
		{`'prefix': '/a'`, "GET /ab", ""},
		{`'prefix': '/a'`, "GET /b", "the path is /b, want one that begins with /a"},
		{`'prefix': '/A', 'caseSensitive': false`, "GET /ab", ""},
		{`'path': '/a'`, "GET /a?b=c", ""},
		{`'path': '/a'`, "GET /a/", "the path is /a/, want /a"},
		{`'path': '/a'`, "GET /b/../a", ""},
		{`'path': '/a'`, "GET /b/%2e%2E/%61", ""},
		{`'path': '/a%2Fb'`, "GET /a%2Fb", ""},
		{`'prefix': '/', 'headers': [{'name': ':authority', 'stringMatch': {'exact': 'a.test'}}]`, "GET /", ""},
		{`'pathSeparatedPrefix': '/a'`, "GET /a/b", ""},
		{`'pathSeparatedPrefix': '/a'`, "GET /ab", "the path is /ab, want /a or one below it"},
		{`'safeRegex': {'regex': '/v[0-9]'}`, "GET /v1", ""},
		{`'safeRegex': {'regex': '/v[0-9]'}`, "GET /v1/", "the path is /v1/, want one like /v[0-9]"},
		{`'safeRegex': {'regex': '/a|/b'}`, "GET /b", ""},
		{`'prefix': '/', 'headers': [{'name': ':method', 'stringMatch': {'exact': 'PUT'}}]`, "GET /", `header :method is "GET", want "PUT"`},
		{`'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'prefix': 'a'}}]`, "GET / X=abc", ""},
		{`'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'prefix': 'a'}}]`, "GET /", `header x is absent, want one that begins with "a"`},
		{`'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'exact': 'a,b'}}]`, "GET / x=a X=b", ""},
		{`'prefix': '/', 'headers': [{'name': 'x', 'presentMatch': true}]`, "GET / x=", ""},
		{`'prefix': '/', 'headers': [{'name': 'x', 'presentMatch': true, 'invertMatch': true}]`, "GET / x=1", `header x is "1", want not present`},
		{`'prefix': '/', 'headers': [{'name': 'x', 'presentMatch': true, 'invertMatch': true}]`, "GET /", ""},
		{`'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'exact': 'a'}, 'invertMatch': true}]`, "GET /", `header x is absent, want not "a"`},
		{`'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'exact': 'a'}, 'invertMatch': true, 'treatMissingHeaderAsEmpty': true}]`, "GET /", ""},
		{`'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'exact': 'a'}, 'invertMatch': true, 'treatMissingHeaderAsEmpty': true}]`, "GET / x=a", `header x is "a", want not "a"`},
		{`'prefix': '/', 'headers': [{'name': 'x', 'rangeMatch': {'start': 1, 'end': 3}}]`, "GET / x=2", ""},
		{`'prefix': '/', 'headers': [{'name': 'x', 'rangeMatch': {'start': 1, 'end': 3}}]`, "GET / x=3", `header x is "3", want 1 to 2`},
		{`'prefix': '/', 'queryParameters': [{'name': 'q', 'stringMatch': {'exact': 'a'}}]`, "GET /?p=1&q=a&q=b", ""},
		{`'prefix': '/', 'queryParameters': [{'name': 'q', 'stringMatch': {'exact': 'a'}}]`, "GET /?q=b&q=a", `query parameter q is "b", want "a"`},
		{`'prefix': '/', 'queryParameters': [{'name': 'q', 'presentMatch': true}]`, "GET /?q", ""},
		{`'prefix': '/', 'queryParameters': [{'name': 'q', 'presentMatch': true}]`, "GET /?p=q", "query parameter q is absent"},
		{`'prefix': '/', 'dynamicMetadata': [{'filter': 'jwt', 'path': [{'key': 'payload'}, {'key': 'a'}, {'key': 'b'}], 'value': {'presentMatch': true}}]`, "GET /", "the request of explain has no token, want one with the claim payload.a.b"},
		{`'prefix': '/', 'dynamicMetadata': [{'filter': 'jwt', 'path': [{'key': 'payload'}], 'value': {'presentMatch': true}, 'invert': true}]`, "GET /", ""},
		{`'prefix': '/', 'grpc': {}`, "GET /", "the request is not gRPC"},
	} {
		s := servedWith(t, host("'*'", `{'match': {`+row.match+`}, 'route': {'cluster': 'good'}}`))
		parts := strings.Fields(row.request)
		r := Request{To: service, Host: "a.test", Method: parts[0], Path: parts[1], Header: map[string][]string{}}
		for _, h := range parts[2:] {
			name, value, _ := strings.Cut(h, "=")
			name = strings.ToLower(name)
			r.Header[name] = append(r.Header[name], value)
		}
		got := ""
		for _, step := range Judge(s, r, nil).Steps {
			for _, p := range step.Passed {
				got = p.Reason
			}
		}
		if got != row.want {
			t.Errorf("%s of %s: %q, want %q", row.match, row.request, got, row.want)
		}
	}
}

func TestRewrites(t *testing.T) {
	for _, row := range []struct{ match, action, path, want string }{
		{`'prefix': '/strip'`, `'prefixRewrite': '/'`, "/strip/abc?q", "a.test//abc?q"},
		{`'path': '/a'`, `'prefixRewrite': '/b'`, "/a?q", "a.test/b?q"},
		{`'prefix': '/'`, `'regexRewrite': {'pattern': {'regex': '^/swap/(.*)/(.*)$'}, 'substitution': '/\\2/\\1'}`, "/swap/a/b", "a.test/b/a"},
		{`'prefix': '/'`, `'hostRewriteLiteral': 'b.test'`, "/", "b.test/"},
		{`'prefix': '/'`, `'timeout': '1s'`, "/x", "a.test/x"},
	} {
		s := servedWith(t, host("'*'", `{'match': {`+row.match+`}, 'route': {'cluster': 'good', `+row.action+`}}`))
		o := Judge(s, Request{To: service, Host: "a.test", Path: row.path}, nil).Outcomes[0]
		if o.Host+o.Path != row.want {
			t.Errorf("%s with %s: the server gets %s%s, want %s", row.path, row.action, o.Host, o.Path, row.want)
		}
	}
}

func TestConnections(t *testing.T) {
	s := servedWith(t, host("'*'", `{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}}`))
	for name, row := range map[string]struct {
		to   string
		tcp  bool
		want string
	}{
		"HTTP at its port":           {"10.9.9.9:80", false, "100 % good 10.0.0.1:80"},
		"bytes at an HTTP port":      {"10.9.9.9:80", true, "100 % good 10.0.0.1:80"},
		"another port":               {"10.9.9.9:81", false, "100 % pass"},
		"the listener's own port":    {"10.9.9.9:15001", false, "100 % UH empty"},
		"the other family's address": {"[fd00::1]:80", false, "100 % pass"},
	} {
		got := Judge(s, Request{To: netip.MustParseAddrPort(row.to), Host: "a.test", TCP: row.tcp}, nil)
		if summary(got) != row.want {
			t.Errorf("%s: %s, want %s", name, summary(got), row.want)
		}
	}
	s.Listeners = s.Listeners[:1]
	if got := summary(Judge(s, Request{To: service}, nil)); got != "100 %" {
		t.Errorf("without a listener that binds: %s", got)
	}
}

// A filter that explain does not judge may answer: each outcome says so.
func TestFiltersThatAreNotJudged(t *testing.T) {
	s := servedWith(t, host("'*'", `{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}}`))
	const policy = `{'name': 'envoy.filters.http.rbac'}, {'name': 'envoy.filters.http.router'`
	s.Listeners[0].FilterChains[0].Filters[0] = read(t, &listenerv3.Filter{}, strings.Replace(manager, `{'name': 'envoy.filters.http.router'`, policy, 1))
	a := Judge(s, Request{To: service, Host: "a.test"}, nil)
	if o := a.Outcomes[0]; len(o.Unless) != 1 || o.Unless[0] != "envoy.filters.http.rbac" || !strings.Contains((Road{Answer: a}).Text(), "unless it is refused by envoy.filters.http.rbac") {
		t.Errorf("the outcome is %+v", o)
	}
}

// Priorities share the load by how many of their endpoints are healthy, as Envoy does.
func TestPriorities(t *testing.T) {
	for name, row := range map[string]struct{ endpoints, want string }{
		"the first is sound": {endpoints(0, "10.0.0.1", "") + "," + endpoints(1, "10.0.0.2", ""), "10.0.0.1:80"},
		"the first is sick":  {endpoints(0, "10.0.0.1", "UNHEALTHY") + "," + endpoints(1, "10.0.0.2", ""), "10.0.0.2:80"},
		"half is sick": {
			endpoints(0, "10.0.0.1", "UNHEALTHY") + "," + endpoints(0, "10.0.0.3", "") + "," + endpoints(1, "10.0.0.2", ""), "10.0.0.3:80 10.0.0.2:80",
		},
		"the first is sick, and the second too weak for all": {
			endpoints(0, "10.0.0.1", "UNHEALTHY") + "," + endpoints(2, "10.0.0.2", "") + "," + endpoints(2, "10.0.0.3", "") + "," + endpoints(2, "10.0.0.4", "") + "," +
				endpoints(2, "10.0.0.5", "UNHEALTHY") + "," + endpoints(2, "10.0.0.6", "UNHEALTHY"), "10.0.0.2:80 10.0.0.3:80 10.0.0.4:80",
		},
		"all are sick, in a panic": {endpoints(0, "10.0.0.1", "UNHEALTHY") + "," + endpoints(0, "10.0.0.3", "UNHEALTHY"), "10.0.0.1:80 10.0.0.3:80"},
	} {
		s := servedWith(t, host("'*'", `{'match': {'prefix': '/'}, 'route': {'cluster': 'good'}}`))
		good, _ := s.Cluster("good")
		s.Cluster = listed([]*clusterv3.Cluster{good}, []*endpointv3.ClusterLoadAssignment{
			read(t, &endpointv3.ClusterLoadAssignment{}, `{'clusterName': 'good', 'endpoints': [`+row.endpoints+`]}`),
		})
		if got := summary(Judge(s, Request{To: service, Host: "a"}, nil)); got != "100 % good "+row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// Every request has outcomes whose shares add up to one, whatever its host, path and headers are.
func FuzzJudge(f *testing.F) {
	f.Add("a.test:80", "/a/../b?c=d", "GET", "x", "1")
	f.Add("", "", "", "", "")
	f.Add("[::", "/%2e%2E/\\..", "OPTIONS", ":authority", "")
	s := servedWith(f, host("'a.test'", `{'match': {'safeRegex': {'regex': '/a.*'}}, 'route': {'weightedClusters': {'clusters': [{'name': 'good', 'weight': 70}, {'name': 'gone', 'weight': 30}]}}},
		{'match': {'prefix': '/', 'headers': [{'name': 'x', 'stringMatch': {'prefix': '1'}}]}, 'redirect': {}}`)+","+host("'*'", `{'match': {'prefix': '/b'}, 'directResponse': {'status': 418}}`))
	f.Fuzz(func(t *testing.T, host, path, method, header, value string) {
		a := Judge(s, Request{To: service, Host: host, Path: path, Method: method, Header: map[string][]string{header: {value}}}, nil)
		sum := 0.0
		for _, o := range a.Outcomes {
			sum += o.Share
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("the shares add up to %v: %+v", sum, a.Outcomes)
		}
		if p := normalPath(path); !strings.HasPrefix(p, "/") {
			t.Errorf("the path %q becomes %q", path, p)
		}
	})
}

// What merge_slashes makes of a path, as measured on Envoy 1.40: of nothing but slashes it leaves two.
func TestMerged(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "/a": "/a", "/a/": "/a/", "//a": "/a", "/a//b": "/a/b", "/a///b//": "/a/b/", "//": "//", "///": "//", "": "",
	} {
		if got := merged(path); got != want {
			t.Errorf("of %q: %q, want %q", path, got, want)
		}
	}
}

// wide returns the YAML of so many services with ten endpoints, a DestinationRule and a VirtualService each: in blocks, or in flow style.
func wide(services int, flow bool) []byte {
	var b strings.Builder
	object := func(kind string, i int, spec string) {
		metadata := fmt.Sprintf("\n  name: s%d\n  namespace: shop", i)
		if flow {
			metadata = fmt.Sprintf(" {name: s%d, namespace: shop}", i)
		}
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: %s\nmetadata:%s\nspec:%s\n", kind, metadata, spec)
	}
	for i := range services {
		host := fmt.Sprintf("s%d.shop.svc.cluster.local", i)
		var endpoints []string
		for e := range 10 {
			address := fmt.Sprintf("10.%d.%d.%d", 1+i/250, i%250, 1+e)
			if flow {
				endpoints = append(endpoints, fmt.Sprintf("{address: %s, labels: {version: v%d}}", address, e%2))
			} else {
				endpoints = append(endpoints, fmt.Sprintf("\n  - address: %s\n    labels:\n      version: v%d", address, e%2))
			}
		}
		if flow {
			object("ServiceEntry", i, fmt.Sprintf(" {hosts: [%s], addresses: [10.200.%d.%d], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: tcp, protocol: TCP}], endpoints: [%s]}",
				host, i/250, 1+i%250, strings.Join(endpoints, ", ")))
			object("DestinationRule", i, fmt.Sprintf(" {host: %s, subsets: [{name: v0, labels: {version: v0}}, {name: v1, labels: {version: v1}}]}", host))
			object("VirtualService", i, fmt.Sprintf(" {hosts: [%s], http: [{match: [{uri: {prefix: /one}}], route: [{destination: {host: %[1]s, subset: v1}}]}, {route: [{destination: {host: %[1]s, subset: v0}, weight: 90}, {destination: {host: %[1]s, subset: v1}, weight: 10}]}]}", host))
			continue
		}
		object("ServiceEntry", i, fmt.Sprintf("\n  hosts:\n  - %s\n  addresses:\n  - 10.200.%d.%d\n  location: MESH_INTERNAL\n  resolution: STATIC\n  ports:\n  - number: 80\n    name: http\n    protocol: HTTP\n  - number: 90\n    name: tcp\n    protocol: TCP\n  endpoints:%s",
			host, i/250, 1+i%250, strings.Join(endpoints, "")))
		object("DestinationRule", i, fmt.Sprintf("\n  host: %s\n  subsets:\n  - name: v0\n    labels:\n      version: v0\n  - name: v1\n    labels:\n      version: v1", host))
		object("VirtualService", i, fmt.Sprintf("\n  hosts:\n  - %s\n  http:\n  - match:\n    - uri:\n        prefix: /one\n    route:\n    - destination:\n        host: %[1]s\n        subset: v1\n  - route:\n    - destination:\n        host: %[1]s\n        subset: v0\n      weight: 90\n    - destination:\n        host: %[1]s\n        subset: v1\n      weight: 10", host))
	}
	return []byte(b.String())
}

// BenchmarkAnswer is the cost of an answer in a mesh of 1,000 services, 3,000 objects and 10,000 endpoints: as a running discovery gives it, and with the
// files read as the command does. Of the time it tells that of the processor too, which other work on the machine does not change as much.
func BenchmarkAnswer(b *testing.B) {
	const services = 1000
	question := func(i int) Question {
		return Question{From: "10.1.0.1", To: fmt.Sprintf("s%d.shop.svc.cluster.local", i%services), Method: "GET", Path: "/one"}
	}
	read := func(text []byte) *model.Mesh {
		objects, problems := config.Decode("mesh.yaml", text)
		if config.HasErrors(problems) || len(objects) != 3*services {
			b.Fatal(len(objects), problems)
		}
		return validation.Mesh{}.Of(objects)
	}
	for _, style := range []string{"block", "flow"} {
		b.Run("read/"+style, func(b *testing.B) {
			text := wide(services, style == "flow")
			measured(b, func(i int) (Road, error) { return question(i).Answer(read(text)) })
		})
	}
	b.Run("served", func(b *testing.B) {
		m := read(wide(services, false))
		measured(b, func(i int) (Road, error) { return question(i).Answer(m) })
	})
}

func measured(b *testing.B, answer func(i int) (Road, error)) {
	b.ReportAllocs()
	used := func() (ns int64) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before, n := used(), 0
	for b.Loop() {
		road, err := answer(n)
		if err != nil || len(road.Outcomes) != 1 || len(road.Outcomes[0].Endpoints) != 5 {
			b.Fatal(err, road.Text())
		}
		n++
	}
	b.ReportMetric(float64(used()-before)/float64(n)/1e6, "cpu-ms/op")
}

// Each step of a road in a wide mesh names what made it; a listener that many services share names the first ones.
func TestARoadInAWideMesh(t *testing.T) {
	objects, _ := config.Decode("mesh.yaml", wide(20, false))
	m := validation.Mesh{}.Of(objects)
	for _, q := range []Question{
		{From: "10.1.0.1", To: "s3.shop.svc.cluster.local", Path: "/one"},
		{From: "10.1.0.1", To: "s3.shop.svc.cluster.local:90", TCP: true},
		{From: "10.1.0.1", To: "nobody.test"},
		{From: "10.1.0.1", To: "nobody.test:99", TCP: true},
	} {
		road, err := q.Answer(m)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(road.Steps, func(s Step) bool { return len(s.Origins) == 0 && s.Unmade == "" })
		if i >= 0 {
			t.Errorf("nobody made the step %s in\n%s", road.Steps[i].Kind, road.Text())
		}
		if shared := strings.Contains(road.Text(), "0.0.0.0_80: to which virtualOutbound passes the intercepted connection [ServiceEntry shop/s0 at mesh.yaml:2; ServiceEntry shop/s1 at "); shared != (!q.TCP) {
			t.Errorf("the listener's origins are not told in\n%s", road.Text())
		}
	}
}

// Texts that a tenant or a question chooses, such as the locality of an endpoint, neither command a terminal nor begin a line of their own.
func TestTextsStayInTheirLines(t *testing.T) {
	text := strings.Replace(sides, "endpoints: [", `endpoints: [{address: 10.0.0.8, locality: "r\e[2J\noutcome       200 from the proxy"}, `, 1)
	road, err := Question{From: "shop/plain", To: "server.test", Method: "GET", Path: "/\x1b[31m\u202e"}.Answer(meshOf(t, text))
	if err != nil {
		t.Fatal(err)
	}
	said := road.Text()
	if !strings.Contains(said, `healthy in r\x1b[2J\noutcome       200`) || !strings.Contains(said, `it gets /\x1b[31m\u202e of`) || strings.ContainsFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("got %q", said)
	}
}
