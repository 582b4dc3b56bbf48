package explain

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/validation"
)

// An outcome has the limits of its route as values, which JSON keeps.
func TestLimits(t *testing.T) {
	const delay = `'typedPerFilterConfig': {'envoy.filters.http.fault': {'@type': 'type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault', 'delay': {'fixedDelay': '2s', 'percentage': {'numerator': 10}}}}`
	for route, want := range map[string]string{
		`'route': {'cluster': 'good', 'timeout': '0s'}`:                                                                    `{}`,
		`'route': {'cluster': 'good'}`:                                                                                     `{"timeout":"15s"}`, // Envoy's own
		`'route': {'cluster': 'good', 'timeout': '1.5s', 'retryPolicy': {'retryOn': '5xx'}}`:                               `{"timeout":"1.5s","retries":{"attempts":1,"on":"5xx"}}`,
		`'route': {'cluster': 'empty', 'timeout': '1.5s', 'retryPolicy': {'retryOn': '5xx'}}`:                              `{}`,
		`'route': {'cluster': 'good', 'timeout': '0s', 'retryPolicy': {'retryOn': 'a', 'numRetries': 0}}`:                  `{"retries":{"attempts":0,"on":"a"}}`,
		`'directResponse': {'status': 200}, ` + delay:                                                                      `{"delay":{"share":0.1,"time":"2s"}}`,
		`'route': {'weightedClusters': {'clusters': [{'name': 'good', 'weight': 1}]}, 'timeout': '2s'}`:                    `{"timeout":"2s"}`,
		`'route': {'cluster': 'good', 'retryPolicy': {'retryOn': 'b', 'perTryTimeout': '0.25s'}}`:                          `{"timeout":"15s","retries":{"attempts":1,"on":"b","perTry":"250ms"}}`,
		`'route': {'cluster': 'good', 'timeout': '0s', 'retryPolicy': {'numRetries': 3, 'retriableStatusCodes': [503,1]}}`: `{"retries":{"attempts":3,"on":"","statuses":[503,1]}}`,
	} {
		o := Judge(servedWith(t, host("'*'", `{'match': {'prefix': '/'}, `+route+`}`)), Request{To: service, Host: "a"}, nil).Outcomes[0]
		text, err := json.Marshal(struct {
			Limits
			Delay *Delay `json:"delay,omitempty"`
		}{o.Limits, o.Delay})
		if err != nil || string(text) != want {
			t.Errorf("%s: %s, %v; want %s", route, text, err, want)
		}
		whole, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var back Outcome
		if err := json.Unmarshal(whole, &back); err != nil || back.Timeout != o.Timeout {
			t.Errorf("%s: read back as %+v, %v", whole, back, err)
		}
	}
	var d Duration
	if err := d.UnmarshalText([]byte("soon")); err == nil || time.Duration(d) != 0 {
		t.Errorf("soon is read as %v, %v", d, err)
	}
}

// A program may begin TLS itself: the server name chooses the chain, and, with a filter for it, the cluster.
func TestTLSOfPrograms(t *testing.T) {
	s := servedWith(t, `{'name': 'h', 'domains': ['a.test'], 'requireTls': 'ALL', 'routes': [{'match': {'prefix': '/', 'headers': [{'name': ':scheme', 'stringMatch': {'exact': 'https'}}]}, 'route': {'cluster': 'good'}}]}`)
	const ends = `, 'transportSocket': {'name': 'tls', 'typedConfig': {'@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext', 'requireClientCertificate': true}}`
	s.Listeners = append(s.Listeners,
		read(t, &listenerv3.Listener{}, `{'name': 'gateway', 'trafficDirection': 'OUTBOUND', 'address': {'socketAddress': {'address': '10.0.0.9', 'portValue': 443}},
			'listenerFilters': [{'name': 'envoy.filters.listener.tls_inspector'}], 'filterChains': [
				{'filterChainMatch': {'serverNames': ['a.test']}, 'filters': [`+manager+`]`+ends+`}, {'filterChainMatch': {'serverNames': ['plain.test']}, 'filters': [`+manager+`]},
				{'filterChainMatch': {'serverNames': ['good', 'gone']}, 'filters': [{'name': 'sni', 'typedConfig': {'@type': 'type.googleapis.com/envoy.extensions.filters.network.sni_cluster.v3.SniCluster'}}, `+tcpTo("empty")+`]}]}`),
		read(t, &listenerv3.Listener{}, `{'name': 'any', 'trafficDirection': 'OUTBOUND', 'address': {'socketAddress': {'address': '10.0.0.9', 'portValue': 444}}, 'filterChains': [{'filters': [`+manager+`]`+ends+`}]}`),
		read(t, &listenerv3.Listener{}, `{'name': 'http', 'trafficDirection': 'OUTBOUND', 'address': {'socketAddress': {'address': '10.0.0.9', 'portValue': 80}}, 'filterChains': [{'filters': [`+manager+`]}]}`),
	)
	gateway, all, plain := netip.MustParseAddrPort("10.0.0.9:443"), netip.MustParseAddrPort("10.0.0.9:444"), netip.MustParseAddrPort("10.0.0.9:80")
	for name, row := range map[string]struct {
		r    Request
		want string
	}{
		"the name of a server":       {Request{To: gateway, Host: "A.test:443", TLS: true}, "100 % good 10.0.0.1:80"},
		"another name":               {Request{To: gateway, Host: "b.test", TLS: true}, "100 % NR"},
		"no TLS":                     {Request{To: gateway, Host: "a.test"}, "100 % NR"},
		"no TLS where all is TLS":    {Request{To: all, Host: "a.test"}, "100 %"},
		"a cluster as name":          {Request{To: gateway, Host: "good", TLS: true}, "100 % good 10.0.0.1:80"},
		"a cluster that is not":      {Request{To: gateway, Host: "gone", TLS: true}, "100 % NC"},
		"TLS that nobody ends":       {Request{To: gateway, Host: "plain.test", TLS: true}, "100 % 400 DPE"},
		"bytes where HTTP is wanted": {Request{To: plain, Host: "a.test", TCP: true}, "100 % 400 DPE"},
		"HTTP for a host of HTTPS":   {Request{To: plain, Host: "a.test"}, "100 % 301"},
	} {
		a := Judge(s, row.r, nil)
		if summary(a) != row.want {
			t.Errorf("%s: %s, want %s", name, summary(a), row.want)
		}
		o := a.Outcomes[0]
		if closed := o.Status == 0 && !strings.Contains(row.want, "good"); o.Closed != closed {
			t.Errorf("%s: closed %t", name, o.Closed)
		}
		if checked := len(o.Unless) > 0; checked != (name == "the name of a server") {
			t.Errorf("%s: unless %v", name, o.Unless)
		}
	}
}

// The scheme of a request is what x-forwarded-proto says where its client is trusted: by a sidecar, and behind a load balancer.
func TestSchemeIsForwarded(t *testing.T) {
	edge, behind := `'useRemoteAddress': true, 'statPrefix'`, `'useRemoteAddress': true, 'xffNumTrustedHops': 1, 'statPrefix'`
	for name, row := range map[string]struct {
		manager, said string
		whole         bool
		want          string
	}{
		"of a sidecar":                 {"'statPrefix'", "https", false, "100 % good 10.0.0.1:80"},
		"of its HTTP proxy":            {"'statPrefix'", "https", true, "100 % 404 NR"}, // the URL says the scheme
		"at the edge":                  {edge, "https", false, "100 % 301"},
		"behind a load balancer":       {behind, "https", false, "100 % good 10.0.0.1:80"},
		"behind one, without a header": {behind, "", false, "100 % 301"},
		"behind one, that says http":   {behind, "http", false, "100 % 301"},
		"behind one, that says odd":    {behind, "ftp", false, "100 % 301"},
	} {
		s := servedWith(t, `{'name': 'h', 'domains': ['a.test'], 'requireTls': 'ALL', 'routes': [{'match': {'prefix': '/', 'headers': [{'name': ':scheme', 'stringMatch': {'exact': 'https'}}]}, 'route': {'cluster': 'good'}}]}`)
		s.Listeners = []*listenerv3.Listener{read(t, &listenerv3.Listener{}, `{'name': 'http', 'trafficDirection': 'OUTBOUND', 'address': {'socketAddress': {'address': '10.9.9.9', 'portValue': 80}},
			'filterChains': [{'filters': [`+strings.Replace(manager, "'statPrefix'", row.manager, 1)+`]}]}`)}
		r := Request{To: service, Host: "a.test", Whole: row.whole}
		if row.said != "" {
			r.Header = map[string][]string{"X-Forwarded-Proto": {row.said}}
		}
		if a := Judge(s, r, nil); summary(a) != row.want {
			t.Errorf("%s: %s, want %s", name, summary(a), row.want)
		}
	}
}

// A program that begins TLS itself does not speak to its HTTP proxy as with plain HTTP.
func TestTLSIsNotForTheHTTPProxy(t *testing.T) {
	objects, _ := config.Decode("mesh.yaml", wide(1, false))
	q := Question{From: "10.1.0.1", To: "s0.shop.svc.cluster.local:90", Metadata: map[string]string{"INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "15080"}}
	for encrypted, want := range map[bool]string{false: "127.0.0.1:15080", true: "10.200.0.1:90"} {
		q.TLS = encrypted
		if road, err := q.Answer(validation.Mesh{}.Of(objects)); err != nil || road.At != want {
			t.Errorf("TLS %t: the program connects to %s, %v; want %s", encrypted, road.At, err, want)
		}
	}
}
