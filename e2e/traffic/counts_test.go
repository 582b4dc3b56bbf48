package traffic

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	sampleLine = regexp.MustCompile(`(?m)^(\w+)\{(.*)\} (\S+)$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// counts returns the sum of each metric's samples with these labels, such as reporter=source. Of no sample there may be two:
// a scraper drops one.
func (m *member) counts(labels ...string) (sums map[string]float64, err error) {
	text, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/stats/prometheus", m.status))
	if err != nil {
		return nil, err
	}
	sums = map[string]float64{}
	samples := map[string]bool{}
	for _, line := range sampleLine.FindAllStringSubmatch(text, -1) {
		sample := line[1] + line[2]
		if samples[sample] {
			return nil, fmt.Errorf("there are two samples %s", sample)
		}
		samples[sample] = true
		told := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(line[2], -1) {
			told[pair[1]] = pair[2]
		}
		has := true
		for _, label := range labels {
			name, value, _ := strings.Cut(label, "=")
			has = has && told[name] == value
		}
		if has {
			n, err := strconv.ParseFloat(line[3], 64)
			if err != nil {
				return nil, err
			}
			sums[line[1]] += n
		}
	}
	return sums, nil
}

// awaitCounts waits until each metric has its sum of samples with these labels.
func (m *member) awaitCounts(want map[string]float64, labels ...string) {
	m.s.T.Helper()
	if err := lab.Eventually(patience, func() error {
		all, err := m.counts(labels...)
		if err != nil {
			return err
		}
		got := map[string]float64{}
		for metric := range want {
			got[metric] = all[metric]
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("%s %v: %v, want %v", m.Name, labels, got, want)
		}
		return nil
	}); err != nil {
		text, _ := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/stats/prometheus", m.status))
		m.s.T.Error(err)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "istio_") && !strings.Contains(line, "_bucket") {
				m.s.T.Log(line)
			}
		}
	}
}

// talk has a connection that has sent five bytes and read ten.
func (s *signed) talk(to string) (c net.Conn) {
	s.T.Helper()
	s.Check(lab.Eventually(patience, func() (err error) { c, err = lab.Talk(to); return err }))
	return c
}

// Sidecars and a gateway count connections of TCP and requests under mutual TLS, by Istio's names; the counts name both identities.
// A connection is opened when the server's is made, and closed once, also one that never reached a server.
func TestIstioCountsUnderMutualTLS(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	server := s.join("server", s.token("server"))
	client := s.join("client", s.token("client"))
	gateway := s.joinAs("router", "gateway", s.token("gateway"))
	app, tcp := s.BackendAt("127.0.0.1", "app"), lab.Doubling(t)
	vip, dead := s.Address(), s.Address()
	web, raw, number := lab.Port(t), lab.Port(t), lab.Port(t)
	s.ApplyAtOnce("mesh.yaml",
		"ServiceEntry server", fmt.Sprintf(`hosts: [server.default.svc.cluster.local]
resolution: STATIC
location: MESH_INTERNAL
addresses: [%s]
ports: [{number: 80, name: http, protocol: HTTP}, {number: %d, name: tcp, protocol: TCP}]
endpoints: [{address: %s, ports: {http: %d, tcp: %d}, labels: {app: server}, serviceAccount: server}]`, vip, number, server.ip, web, raw),
		"ServiceEntry dead", fmt.Sprintf(`hosts: [dead.default.svc.cluster.local]
resolution: STATIC
location: MESH_INTERNAL
addresses: [%s]
ports: [{number: %d, name: tcp, protocol: TCP}]
endpoints: [{address: %s, ports: {tcp: 1}}]`, dead, number, s.Address()),
		"Sidecar server", fmt.Sprintf(`workloadSelector: {labels: {app: server}}
ingress:
- {port: {number: %d, name: http, protocol: HTTP}, defaultEndpoint: 127.0.0.1:%d}
- {port: {number: %d, name: tcp, protocol: TCP}, defaultEndpoint: 127.0.0.1:%d}
egress: [{hosts: [./nobody.test]}]`, web, app.Port, raw, tcp),
		"PeerAuthentication default", "mtls: {mode: STRICT}",
		"DestinationRule server", "host: server.default.svc.cluster.local\nsubsets: [{name: v1, labels: {app: server}}]",
		"VirtualService server", "hosts: [server.default.svc.cluster.local]\nhttp: [{match: [{uri: {exact: /v1}}], route: [{destination: {host: server, subset: v1}}]}, {route: [{destination: {host: server}}]}]",
		"Gateway gw", fmt.Sprintf(`selector: {app: gateway}
servers:
- {port: {number: 18080, name: http, protocol: HTTP}, bind: %s, hosts: ["*"]}
- {port: {number: 18081, name: tcp, protocol: TCP}, bind: %s, hosts: ["*"]}`, gateway.ip, gateway.ip),
		"VirtualService gw", fmt.Sprintf(`hosts: ["*"]
gateways: [gw]
http: [{route: [{destination: {host: server.default.svc.cluster.local, port: {number: 80}}}]}]
tcp: [{match: [{port: 18081}], route: [{destination: {host: server.default.svc.cluster.local, port: {number: %d}}}]}]`, number))
	for _, m := range []*member{server, client, gateway} {
		m.await()
	}

	opened, closed, sent, received := "istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total", "istio_tcp_sent_bytes_total", "istio_tcp_received_bytes_total"
	s.talk(fmt.Sprintf("%s:%d", vip, number)).Close()
	kept := s.talk(fmt.Sprintf("%s:%d", vip, number))
	defer kept.Close()
	identity := func(account string) string { return "spiffe://cluster.local/ns/default/sa/" + account }
	both := []string{
		"source_workload_namespace=default", "source_principal=" + identity("client"), "destination_workload_namespace=default",
		"destination_principal=" + identity("server"), "request_protocol=tcp", "response_flags=-",
	}
	one := map[string]float64{opened: 2, closed: 1, sent: 10, received: 5}
	ofClient := append([]string{
		"reporter=source", "source_workload=client.default", "destination_workload=server", "connection_security_policy=unknown",
		"destination_service=server.default.svc.cluster.local", "destination_service_name=server", "destination_service_namespace=default",
	}, both...)
	ofServer := append([]string{"reporter=destination", "source_workload=client", "destination_workload=server.default", "connection_security_policy=mutual_tls"}, both...)
	client.awaitCounts(one, ofClient...)
	server.awaitCounts(one, ofServer...)
	kept.Close()
	two := map[string]float64{opened: 2, closed: 2, sent: 20, received: 10}
	client.awaitCounts(two, ofClient...)
	server.awaitCounts(two, ofServer...)

	if c, err := net.Dial("tcp", net.JoinHostPort(dead, fmt.Sprint(number))); err != nil {
		t.Error(err)
	} else {
		_, _ = c.Read(make([]byte, 1)) // until Envoy closes it
		c.Close()
	}
	client.awaitCounts(map[string]float64{opened: 1, closed: 1, sent: 0, received: 0}, "reporter=source", "destination_service_name=dead", "destination_principal=unknown", "source_principal=unknown")

	get := func(what string, ask func() error) {
		t.Helper()
		if err := lab.Eventually(patience, ask); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	get("the client", func() error {
		_, err := lab.GetThrough(fmt.Sprintf("127.0.0.1:%d", client.proxy), "http://server.default.svc.cluster.local/")
		return err
	})
	get("by the gateway", func() error { _, err := lab.Get("http://" + gateway.ip + ":18080/"); return err })
	s.talk(gateway.ip + ":18081").Close()
	for _, from := range []*member{client, gateway} {
		account, _, _ := strings.Cut(from.Name, "-")
		request := map[string]float64{"istio_requests_total": 1, "istio_request_duration_milliseconds_count": 1}
		labels := []string{"response_code=200", "request_protocol=http", "source_principal=" + identity(account), "destination_principal=" + identity("server")}
		from.awaitCounts(request, append([]string{"reporter=source", "source_workload=" + account + ".default", "destination_workload=server", "destination_service_name=server"}, labels...)...)
		server.awaitCounts(request, append([]string{"reporter=destination", "source_workload=" + account, "destination_workload=server.default", "connection_security_policy=mutual_tls"}, labels...)...)
	}
	gateway.awaitCounts(map[string]float64{opened: 1, closed: 1, sent: 10, received: 5}, "reporter=source", "source_workload=gateway.default", "destination_service_name=server",
		"source_principal="+identity("gateway"), "destination_principal="+identity("server"), "request_protocol=tcp")
	get("a subset", func() error { // of which Istio's labels say nothing
		_, err := lab.GetThrough(fmt.Sprintf("127.0.0.1:%d", client.proxy), "http://server.default.svc.cluster.local/v1")
		return err
	})
	client.awaitCounts(map[string]float64{"istio_requests_total": 2, "istio_request_duration_milliseconds_count": 2}, "response_code=200", "destination_service_name=server")
	server.refuses(fmt.Sprintf("%s:%d", server.ip, web))
	for _, m := range []*member{client, server, gateway} {
		if counts, err := m.counts(); err != nil || counts["pilotlight_agent_istio_uncounted"] != 0 {
			t.Errorf("%s: %v are not counted, %v", m.Name, counts["pilotlight_agent_istio_uncounted"], err)
		}
	}
}
