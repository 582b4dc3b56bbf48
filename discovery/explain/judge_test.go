package explain

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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
