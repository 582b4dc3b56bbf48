package status

import (
	"bytes"
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
	e.istio.write(writer{e.to})
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
