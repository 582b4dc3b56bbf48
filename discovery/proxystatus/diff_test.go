package proxystatus

import (
	"strings"
	"testing"
)

const wasSent = `{
	"cds": [{"@type": "c", "name": "a", "connectTimeout": "1s", "edsClusterConfig": {"serviceName": "x"}}, {"name": "b"}, {"name": "w"}],
	"eds": [{"clusterName": "a", "endpoints": [{"lbEndpoints": [{"endpoint": {"address": {"socketAddress": {"address": "10.0.0.1", "portValue": 80}}}}]}]}],
	"lds": [{"name": "l", "value": 1, "trafficDirection": "OUTBOUND"}], "rds": [{"name": "80", "virtualHosts": [{"name": "v", "domains": ["a"]}]}],
	"sds": [{"name": "s", "version": "1"}], "nds": []}`

// bootstrap is the part of a dump that says whose Envoy it is of.
const bootstrap = `{"bootstrap": {"node": {"id": "sidecar~10.9.0.1~web.shop~shop.svc.cluster.local"}}}, `

const envoyHas = `{"configs": [` + bootstrap + `
	{"dynamic_active_clusters": [{"cluster": {"@type": "c", "name": "a", "connect_timeout": "1s", "eds_cluster_config": {"service_name": "x"}}}, {"cluster": {"name": "b"}}],
	 "dynamic_warming_clusters": [{"cluster": {"name": "w"}}, {"cluster": {"name": "b", "later": true}}]},
	{"dynamic_listeners": [{"name": "l", "active_state": {"listener": {"name": "l", "value": "1", "traffic_direction": "OUTBOUND"}}}]},
	{"dynamic_route_configs": [{"route_config": {"name": "80", "virtual_hosts": [{"name": "v", "domains": ["a"]}]}}]},
	{"dynamic_endpoint_configs": [{"endpoint_config": {"cluster_name": "a", "endpoints": [{"lb_endpoints": [{"health_status": "HEALTHY", "endpoint": {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}}}}]}]}}]},
	{"dynamic_active_secrets": [{"name": "s"}, {"name": "of the agent"}]}
]}`

func TestDiff(t *testing.T) {
	for _, row := range []struct{ name, from, to, only, want string }{
		{name: "one that warms", want: "cds w Envoy has it, and does not use it yet: what it needs is missing\n"},
		{name: "alike", only: "listeners", want: "Envoy has what discovery has sent\n"},
		{name: "endpoints", only: "endpoints", from: "10.0.0.1", to: "10.0.0.2", want: "eds a differs: endpoints[0]: sent \"{\\\"socketaddress\\\":{\\\"address\\\":\\\"10.0.0.1\\\",\\\"portvalue\\\":\\\"80\\\"}}\", Envoy has "},
		{name: "a field", only: "routes", from: `"domains": ["a"]`, to: `"domains": ["b"]`, want: "rds 80 differs: virtualhosts[0].domains[0]: sent \"a\", Envoy has \"b\"\n"},
		{name: "a field that is missing", only: "clusters", from: `"connect_timeout": "1s", `, want: "cds a differs: connecttimeout: sent \"1s\", Envoy has nothing\n"},
		{name: "missing", only: "listeners", from: `"active_state"`, to: `"error_state"`, want: "lds l was sent, and Envoy does not have it\n"},
		{name: "left over", only: "routes", from: `"route_config": {"name": "80"`, to: `"route_config": {"name": "81"`, want: "rds 80 was sent, and Envoy does not have it\nrds 81 Envoy has it, and it was not sent\n"},
		{name: "a secret of the agent", only: "secrets", want: "Envoy has what discovery has sent\n"},
		{name: "a secret", only: "secrets", from: `"s"`, to: `"t"`, want: "sds s was sent, and Envoy does not have it\n"},
	} {
		all, err := Diff("web.shop", []byte(wasSent), []byte(strings.Replace(envoyHas, row.from, row.to, 1)), nil, row.only)
		if got := all.Text(); err != nil || !strings.HasPrefix(got, row.want) {
			t.Errorf("%s: got %q, %v, want %q", row.name, got, err, row.want)
		} else if (all.Err() != nil) != (len(all) > 0) {
			t.Errorf("%s: the error is %v", row.name, all.Err())
		}
	}
	for _, text := range []string{"<html>", "{}", `{"configs": []}`} {
		if _, err := Diff("web.shop", []byte(wasSent), []byte(text), nil, ""); err == nil || !strings.Contains(err.Error(), "is it the port of an agent") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// The Envoy of a replica, which was sent the same, is not taken for the one that is named.
func TestDiffOfAnotherEnvoy(t *testing.T) {
	const id = "sidecar~10.9.0.1~web.shop~shop.svc.cluster.local"
	for _, row := range []struct {
		proxy, dump string
		same        bool
	}{
		{id, envoyHas, true},
		{"web.shop", envoyHas, true},
		{"shop/web", envoyHas, true},
		{"web-2.shop", envoyHas, false},
		{"other/web", envoyHas, false},
		{"sidecar~10.0.0.2~web.shop~shop.svc.cluster.local", envoyHas, false},
		{"web.shop", strings.Replace(envoyHas, bootstrap, "", 1), false},
	} {
		all, err := Diff(row.proxy, []byte(wasSent), []byte(row.dump), nil, "listeners")
		if err != nil || (len(all) == 0) != row.same {
			t.Errorf("%s: got %v, %v", row.proxy, all, err)
		}
		if want := `node ` + row.proxy + ` differs: the Envoy behind that agent is "`; !row.same && (!strings.HasPrefix(all.Text(), want) || all.Err() == nil) {
			t.Errorf("got %s, want %s", all.Text(), want)
		}
	}
}
