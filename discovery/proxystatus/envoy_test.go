package proxystatus

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

const sentEndpoints = `{"eds": [{"clusterName": "a", "endpoints": [
	{"locality": {"region": "r", "zone": "z"}, "priority": 1, "loadBalancingWeight": 3, "lbEndpoints": [
		{"loadBalancingWeight": 5, "healthStatus": "DRAINING", "endpoint": {"address": {"socketAddress": {"address": "10.0.0.1", "portValue": 80}}}}]},
	{"lbEndpoints": [{"endpoint": {"address": {"pipe": {"path": "/run/s"}}}}]}]}]}`

// As Envoy shows them: every weight, priority and health, and the health at present in its dump.
const dumpedEndpoints = `{"configs": [` + bootstrap + `{"dynamic_endpoint_configs": [{"endpoint_config": {"cluster_name": "a", "endpoints": [
	{"locality": {"region": "r", "zone": "z"}, "priority": 1, "load_balancing_weight": 3, "lb_endpoints": [
		{"load_balancing_weight": 5, "health_status": "UNHEALTHY", "endpoint": {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}}}}]},
	{"locality": {}, "load_balancing_weight": 0, "lb_endpoints": [{"load_balancing_weight": 1, "health_status": "HEALTHY", "endpoint": {"address": {"pipe": {"path": "/run/s"}}}}]}]}}]}]}`

const clustersOf = `{"cluster_statuses": [{"name": "of a", "eds_service_name": "a", "host_statuses": [
	{"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}}, "health_status": {"eds_health_status": "DRAINING"}},
	{"address": {"pipe": {"path": "/run/s"}}, "health_status": {"eds_health_status": "HEALTHY"}}]}]}`

// Weight, locality, priority and the health that was sent are compared, and what Envoy adds is no difference.
func TestDiffOfEndpoints(t *testing.T) {
	for _, row := range []struct{ name, from, to, want string }{
		{name: "alike", want: "Envoy has what discovery has sent\n" + NotCompared + "\n"},
		{"a weight", `"loadBalancingWeight": 5`, `"loadBalancingWeight": 6`, "eds a differs: 10.0.0.1:80.weight: sent \"6\", Envoy has \"5\"\n" + NotCompared + "\n"},
		{"a priority", `"priority": 1`, `"priority": 2`, "eds a differs: 10.0.0.1:80.priority: sent \"2\", Envoy has \"1\"\n"},
		{"a zone", `"zone": "z"`, `"zone": "y"`, "eds a differs: 10.0.0.1:80.locality: sent \"r/y\", Envoy has \"r/z\"\n"},
		{"a locality's weight", `"loadBalancingWeight": 3`, `"loadBalancingWeight": 4`, "eds a differs: 10.0.0.1:80.localityWeight: sent \"4\", Envoy has \"3\"\n"},
		{"health", `"healthStatus": "DRAINING", `, ``, "eds a differs: 10.0.0.1:80.health: sent \"HEALTHY\", Envoy has \"DRAINING\"\n"},
		{"health of the other", `{"endpoint": {"address": {"pipe"`, `{"healthStatus": "UNHEALTHY", "endpoint": {"address": {"pipe"`, "eds a differs: /run/s.health: sent \"UNHEALTHY\", Envoy has \"HEALTHY\"\n"},
		{"a further one", `{"endpoint": {"address": {"pipe"`, `{"endpoint": {"address": {"pipe": {"path": "/run/t"}}}}, {"endpoint": {"address": {"pipe"`, "eds a differs: endpoints: sent "},
	} {
		all, err := Diff("web.shop", []byte(strings.Replace(sentEndpoints, row.from, row.to, 1)), []byte(dumpedEndpoints), []byte(clustersOf), "")
		if got := all.Text(); err != nil || !strings.HasPrefix(got, row.want) {
			t.Errorf("%s: got %q, %v, want %q", row.name, got, err, row.want)
		}
	}
	for _, text := range []string{"<html>", `{"cluster_statuses": [{"host_statuses": [{}]}]}`} {
		if _, err := Diff("web.shop", []byte(sentEndpoints), []byte(dumpedEndpoints), []byte(text), ""); err == nil || !strings.Contains(err.Error(), "of Envoy's /clusters") && !strings.Contains(err.Error(), "read Envoy's /clusters") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A stale certificate and stale roots differ, by hash; a discovery that does not tell them is believed.
func TestDiffOfSecrets(t *testing.T) {
	const certificate, roots = "a chain", "roots"
	dump := fmt.Sprintf(`{"configs": [`+bootstrap+`{"dynamic_active_secrets": [{"name": "s", "secret": {"tls_certificate": {"certificate_chain": {"inline_bytes": %q}, "private_key": {"inline_bytes": "W3JlZGFjdGVkXQ=="}}}},
		{"name": "r", "secret": {"validation_context": {"trusted_ca": {"inline_string": %q}}}}]}]}`, base64.StdEncoding.EncodeToString([]byte(certificate)), roots)
	const sent = `{"sds": [{"name": "s", "version": "1", "certificate": {"sha256": %q, "serial": "1a", "until": "2030-01-02T03:04:05Z"}}, {"name": "r", "roots": {"sha256": %q}}]}`
	hash := func(text string) string { return secret.MarkOf([]byte(text)).SHA256 }
	for _, row := range []struct{ sent, want string }{
		{fmt.Sprintf(sent, hash(certificate), hash(roots)), "Envoy has what discovery has sent\n"},
		{`{"sds": [{"name": "s", "version": "1"}]}`, "Envoy has what discovery has sent\n"},
		{fmt.Sprintf(sent, hash("new"), hash(roots)), "sds s differs: certificate: sent serial number 1a until 2030-01-02T03:04:05Z, sha256 " + hash("new")[:16] + ", Envoy has sha256 " + hash(certificate)[:16] + "\n"},
		{fmt.Sprintf(sent, hash(certificate), hash("new")), "sds r differs: roots: sent sha256 " + hash("new")[:16] + ", Envoy has sha256 " + hash(roots)[:16] + "\n"},
		{fmt.Sprintf(`{"sds": [{"name": "r", "certificate": {"sha256": %q}}]}`, hash("new")), "sds r differs: certificate: sent sha256 " + hash("new")[:16] + ", Envoy has nothing\n"},
	} {
		all, err := Diff("web.shop", []byte(row.sent), []byte(dump), nil, "secrets")
		if got := all.Text(); err != nil || !strings.HasPrefix(got, row.want) {
			t.Errorf("got %q, %v, want %q", got, err, row.want)
		}
	}
}
