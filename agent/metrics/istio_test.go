package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What Envoy 1.40 writes of the logs that discovery's listeners have.
const countedByEnvoy = `# TYPE envoy_istio_requests_all_total counter
envoy_istio_requests_all_total{reporter="source"} 12
envoy_istio_requests_all_total{reporter="destination"} 5
# TYPE envoy_istio_requests_total counter
envoy_istio_requests_total{reporter="source",cluster="outbound|9080|v1|reviews.shop.svc.cluster.local",response_code="200",response_flags="-",request_protocol="HTTP/1.1",peer=""} 7
envoy_istio_requests_total{reporter="source",cluster="",response_code="404",response_flags="NR",request_protocol="HTTP/2",peer=""} 2
envoy_istio_requests_total{reporter="destination",cluster="inbound|9080||",response_code="200",response_flags="-",request_protocol="HTTP/2",peer="spiffe://cluster.local/ns/front/sa/web"} 5
# TYPE envoy_istio_request_duration_milliseconds histogram
envoy_istio_request_duration_milliseconds_bucket{reporter="source",cluster="outbound|443||api.test",response_code="200",request_protocol="HTTP/1.1",peer="",le="0.5"} 1
envoy_istio_request_duration_milliseconds_sum{reporter="source",cluster="outbound|443||api.test",response_code="200",request_protocol="HTTP/1.1",peer=""} 2.5
# TYPE envoy_istio_tcp_sent_bytes_total counter
envoy_istio_tcp_sent_bytes_total{reporter="source",cluster="PassthroughCluster",response_flags="-",peer="x\"y\\"} 99
# TYPE envoy_istio_tcp_connections_opened_total counter
envoy_istio_tcp_connections_opened_total{of="source . - . outbound|3306||db.shop.svc.cluster.local spiffe://cluster.local/ns/default/sa/own spiffe://cluster.local/ns/shop/sa/db"} 3
envoy_istio_tcp_connections_opened_total{of="source . UF . outbound|3306||db.shop.svc.cluster.local - -"} 4
# TYPE envoy_istio_tcp_connections_all_total counter
envoy_istio_tcp_connections_all_total{of="source"} 1
envoy_istio_tcp_connections_closed_total{of="source . - . outbound|3306||db.shop.svc.cluster.local spiffe://cluster.local/ns/default/sa/own spiffe://cluster.local/ns/shop/sa/db x"} 1
# TYPE envoy_cluster_x counter
envoy_cluster_x{a="b"} 1
`

func TestIstioNames(t *testing.T) {
	var text bytes.Buffer
	e := newExposition(&text)
	e.istio = newIstio(Workload{Name: `web"1`, Namespace: "default", App: "web", Version: "v1", Canonical: "web", Revision: "v1"})
	c, err := e.copy(strings.NewReader(countedByEnvoy), 1<<20, false)
	e.istio.write(Writer{e.to})
	e.to.Flush()
	if err != nil || c.dropped != 0 {
		t.Fatalf("dropped %d lines, %v", c.dropped, err)
	}
	own := `workload="web\"1",SIDE_workload_namespace="default",SIDE_canonical_service="web",SIDE_canonical_revision="v1",SIDE_app="web",SIDE_version="v1",SIDE_principal="unknown"`
	none := func(side, workload, namespace, principal string) string { // of a known namespace an unknown cluster is not told
		return strings.NewReplacer("SIDE", side, "W", workload, "NS", namespace, "P", principal).Replace(
			`SIDE_workload="W",SIDE_workload_namespace="NS",SIDE_canonical_service="unknown",SIDE_canonical_revision="unknown",SIDE_app="unknown",SIDE_version="unknown",SIDE_principal="P"`)
	}
	source := "source_" + strings.ReplaceAll(own, "SIDE", "source")
	for _, want := range []string{
		"# TYPE istio_requests_total counter\n",
		`istio_requests_total{reporter="source",` + source + `,` + none("destination", "unknown", "shop", "unknown") +
			`,destination_service="reviews.shop.svc.cluster.local",destination_service_name="reviews",destination_service_namespace="shop",request_protocol="http",response_code="200",response_flags="-",connection_security_policy="unknown"} 7` + "\n",
		`destination_service="unknown",destination_service_name="unknown",destination_service_namespace="unknown",request_protocol="http",response_code="404",response_flags="NR",connection_security_policy="unknown"} 2` + "\n",
		`istio_requests_total{reporter="destination",` + none("source", "web", "front", "spiffe://cluster.local/ns/front/sa/web") + `,destination_` + strings.ReplaceAll(own, "SIDE", "destination") +
			`,destination_service="unknown",destination_service_name="unknown",destination_service_namespace="default",request_protocol="http",response_code="200",response_flags="-",connection_security_policy="mutual_tls"} 5` + "\n",
		"# TYPE istio_request_duration_milliseconds histogram\n",
		`destination_service="api.test",destination_service_name="api.test",destination_service_namespace="unknown",request_protocol="http",response_code="200",connection_security_policy="unknown",le="0.5"} 1` + "\n",
		`istio_tcp_sent_bytes_total{reporter="source",`, `destination_service_name="PassthroughCluster",destination_service_namespace="unknown",request_protocol="tcp",response_flags="-",connection_security_policy="unknown"} 99` + "\n",
		"# TYPE istio_tcp_connections_opened_total counter\n",
		`istio_tcp_connections_opened_total{reporter="source",` + strings.Replace(source, `principal="unknown"`, `principal="spiffe://cluster.local/ns/default/sa/own"`, 1) + `,` +
			none("destination", "db", "shop", "spiffe://cluster.local/ns/shop/sa/db") + `,destination_service="db.shop.svc.cluster.local",destination_service_name="db",destination_service_namespace="shop",` +
			`request_protocol="tcp",response_flags="-",connection_security_policy="unknown"} 3` + "\n",
		`istio_tcp_connections_opened_total{reporter="source",` + source + `,` + none("destination", "unknown", "shop", "unknown") + `,destination_service="db.shop.svc.cluster.local",`,
		`destination_principal="spiffe://cluster.local/ns/shop/sa/db x"`, // what the certificate says, all of it
		`envoy_cluster_x{a="b"} 1` + "\n",
		`pilotlight_agent_istio_uncounted{reporter="source"} 3` + "\n", `pilotlight_agent_istio_uncounted{reporter="destination"} 0` + "\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("lacks %s\n", want)
		}
	}
	if strings.Contains(text.String(), "_all_total") || strings.Contains(text.String(), "envoy_istio") {
		t.Errorf("has Envoy's names")
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

// Counts that Istio's labels do not tell apart are one sample, their sum: a scraper takes one of two samples with the same labels and drops the other.
func TestIstioNamesAreSummed(t *testing.T) {
	var text bytes.Buffer
	e := newExposition(&text)
	e.istio = newIstio(Workload{})
	from := func(of string) string { return `{of="source 200 - ` + of + ` - -"` }
	v1, v2, other := from("HTTP/1.1 outbound|80|v1|a.shop.svc.cluster.local"), from("HTTP/2 outbound|80|v2|a.shop.svc.cluster.local"), from("HTTP/1.1 outbound|80||b.test")
	_, err := e.copy(strings.NewReader("# TYPE envoy_istio_requests_total counter\n"+
		"envoy_istio_requests_total"+v1+"} 90071992547409930\nenvoy_istio_requests_total"+other+"} 4\nenvoy_istio_requests_total"+v2+"} 3\n"+
		"# TYPE envoy_istio_request_duration_milliseconds histogram\n"+
		"envoy_istio_request_duration_milliseconds_bucket"+v1+`,le="1"} 1`+"\nenvoy_istio_request_duration_milliseconds_bucket"+v1+`,le="+Inf"} 2`+"\n"+
		"envoy_istio_request_duration_milliseconds_sum"+v1+"} 2.5\nenvoy_istio_request_duration_milliseconds_count"+v1+"} 2\n"+
		"envoy_istio_request_duration_milliseconds_bucket"+v2+`,le="1"} 3`+"\nenvoy_istio_request_duration_milliseconds_bucket"+v2+`,le="+Inf"} 3`+"\n"+
		"envoy_istio_request_duration_milliseconds_sum"+v2+"} 1.25\nenvoy_istio_request_duration_milliseconds_count"+v2+"} 3\n"+
		"# TYPE envoy_cluster_x counter\nenvoy_cluster_x{a=\"b\"} 1\nenvoy_istio_tcp_connections_opened_total"+v1+"} 5\n"), 1<<20, false)
	e.to.Flush()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		name, _, _ := strings.Cut(line, "{")
		value := line[strings.LastIndexByte(line, ' ')+1:]
		if strings.HasPrefix(line, "#") {
			name, value = strings.TrimSuffix(line, "\n"), ""
		}
		_, le, _ := strings.Cut(line, ",le=")
		le, _, _ = strings.Cut(le, "}")
		got = append(got, strings.TrimSpace(name+" "+le+" "+value))
	}
	want := []string{
		"# TYPE istio_requests_total counter", "istio_requests_total  90071992547409933", "istio_requests_total  4",
		"# TYPE istio_request_duration_milliseconds histogram",
		`istio_request_duration_milliseconds_bucket "1" 4`, `istio_request_duration_milliseconds_bucket "+Inf" 5`,
		"istio_request_duration_milliseconds_sum  3.75", "istio_request_duration_milliseconds_count  5",
		"# TYPE envoy_cluster_x counter", "envoy_cluster_x  1", "istio_tcp_connections_opened_total  5",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s\nof\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), &text)
	}
}

// A family that is cut short has no sums, which would be too small, and one without end is bounded.
func TestIstioSumsAreWhole(t *testing.T) {
	var text bytes.Buffer
	e := newExposition(&text)
	e.istio = newIstio(Workload{})
	_, err := e.copy(strings.NewReader("envoy_istio_tcp_sent_bytes_total 7\nenvoy_istio_requests_total{of=\"source 200\"} 1\n"+strings.Repeat("x", 100)), 100, false)
	e.to.Flush()
	if got := text.String(); !errors.Is(err, errTooLong) || !strings.Contains(got, "istio_tcp_sent_bytes_total{") || strings.Contains(got, "istio_requests_total") {
		t.Errorf("got %q, %v", got, err)
	}

	text.Reset()
	e.istio = newIstio(Workload{})
	var many strings.Builder
	fmt.Fprintf(&many, "envoy_istio_requests_all_total{of=\"source\"} %d\n", mostSums+5)
	for i := range mostSums + 5 {
		fmt.Fprintf(&many, "envoy_istio_requests_total{of=\"source %d\"} 1\n", i)
	}
	c, err := e.copy(strings.NewReader(many.String()), 10<<20, false)
	e.istio.write(Writer{e.to})
	e.to.Flush()
	if got := text.String(); err != nil || c.dropped != 5 || strings.Count(got, "\nistio_requests_total{") != mostSums-1 || !strings.Contains(got, `istio_uncounted{reporter="source"} 5`) {
		t.Errorf("%d samples, %+v, %v", strings.Count(got, "istio_requests_total{"), c, err)
	}
}
