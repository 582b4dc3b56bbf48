package main

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// resolved are the settings of some flags: "--ip", "10.0.0.1".
func resolved(t *testing.T, env identity.Environment, flags ...string) *settings {
	t.Helper()
	sources := setting.Sources{Env: env}
	for i := 0; i < len(flags); i += 2 {
		sources.Flags = append(sources.Flags, setting.Given{Name: strings.TrimPrefix(flags[i], "--"), Text: flags[i+1]})
	}
	s := &settings{}
	if faults := s.resolve(sources); len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

// A derived value is printed if none was given, and the settings do not change.
func TestPrint(t *testing.T) {
	s := resolved(t, nil, "--id", "mine")
	var before, out, after strings.Builder
	if err := s.table().Effective(&before, s.origins); err != nil {
		t.Fatal(err)
	}
	if err := s.print(&out, []identity.Derived{{Setting: "ip", Value: "10.0.0.7", How: "a guess"}, {Setting: "id", Value: "other", How: "a guess"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10.0.0.7 ", " a guess\n", "mine ", " flag --id\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
	if err := s.table().Effective(&after, s.origins); err != nil || after.String() != before.String() {
		t.Errorf("the settings have changed, %v:\n%s", err, after.String())
	}
}

// variables are the variables of the environment that proxy reads besides those of its settings, by Istio's names. Most
// become metadata of Envoy's node, which discovery chooses the configuration by.
var variables = []struct{ name, what string }{
	{"POD_NAME, POD_NAMESPACE, SERVICE_ACCOUNT", "the pod's, from the downward API"},
	{"HOST_IP", "the pod's node, for whose probes connections are reserved"},
	{
		"ISTIO_META_NAMESPACE", "the proxy's namespace (default: POD_NAMESPACE, else NAMESPACE of a --domain NAMESPACE.svc.DOMAIN, else default)",
	},
	{
		"ISTIO_META_INTERCEPTION_MODE", "REDIRECT or TPROXY where traffic is redirected to Envoy, NONE where programs call it; " +
			"without it discovery assumes REDIRECT, and the agent does not wait for the listeners of redirected traffic",
	},
	{"ISTIO_META_HTTP_PROXY_PORT", "a port of 127.0.0.1 where Envoy is the HTTP proxy of programs, under NONE"},
	{"ISTIO_METAJSON_LABELS", `the workload's labels, {"app":"reviews"}; they override those of labelsFile one by one`},
	{"ISTIO_METAJSON_ANNOTATIONS", "the workload's annotations, likewise"},
	{"ISTIO_META_CLUSTER_ID", "the name of the proxy's cluster (default: serviceregistry)"},
	{"ISTIO_META_NETWORK", "the name of the proxy's network"},
	{"ISTIO_META_DNS_CAPTURE", "true where the pod's DNS is redirected to Envoy, which answers the names of the mesh"},
	{"ISTIO_META_DNS_AUTO_ALLOCATE", "false for no addresses of services that have none, with DNS_CAPTURE (default: they get some)"},
	{"ISTIO_META_DNS_FILTER", "true where Envoy itself answers captured DNS (default: true with DNS_CAPTURE)"},
	{"ISTIO_META_HTTP10", "1 where Envoy serves HTTP/1.0, which is answered 426 otherwise"},
	{"ISTIO_META_NODE_NAME", "the name of the machine or Node, for what is local to it"},
	{"ISTIO_META_WORKLOAD_NAME", "the workload's name in metrics (default: made from POD_NAME, or --id)"},
	{"ISTIO_META_UNPRIVILEGED_POD", "true where Envoy cannot bind ports below 1024: discovery leaves such listeners out, and notes it"},
	{"ISTIO_META_GENERATOR", "grpc for a program with gRPC's own xDS client, which has no Envoy"},
	{
		"ISTIO_META_TLS_CLIENT_CERT_CHAIN, ISTIO_META_TLS_CLIENT_KEY, ISTIO_META_TLS_CLIENT_ROOT_CERT",
		"files of Envoy's own certificate for clusters and listeners, instead of what the agent serves",
	},
	{
		"ISTIO_META_PILOTLIGHT_SDS", "files where the bootstrap has the cluster sds-grpc, none where it has not (default: none for a bootstrap of your own, else files)",
	},
	{"ISTIO_META_PILOTLIGHT_CERTIFICATE", "true where sds-grpc has a certificate of the mesh (default: whether the agent has one, or will)"},
	{
		"ISTIO_META_PILOTLIGHT_REPORTS", "what Envoy tells the agent of requests: requests, failures or none (default: none for a bootstrap of your own, else requests)",
	},
	{"ISTIO_META_CONFIG_NAMESPACE", "the namespace whose configuration istiod sends (default: the proxy's namespace)"},
	{"ISTIO_META_ISTIO_VERSION", "the release of Istio that a control plane takes the proxy for"},
	{"ISTIO_META_X", "the text X of the metadata, for every other X"},
	{"ISTIO_METAJSON_X", "a JSON object that is merged into the metadata"},
	{"PROXY_CONFIG", "Istio's ProxyConfig as JSON: concurrency, and what discovery reads of it"},
	{"ISTIO_KUBE_APP_PROBERS", "the application's probes, which the injector has moved to the agent"},
	{"ISTIO_PROMETHEUS_ANNOTATIONS", "where the application's metrics are, likewise"},
	{"ISTIO_BOOTSTRAP", "a template that beats templateFile"},
	{"ISTIO_NAMESPACE", "discovery's namespace, for the default of pilotIdentity (default: istio-system)"},
}
