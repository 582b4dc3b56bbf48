package proxy

import (
	"cmp"

	"github.com/pilotlight/pilotlight/agent/metrics"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// istioWorkload returns what Istio's metrics tell of the workload, by the labels from which Istio takes it.
func istioWorkload(p bootstrap.Params) metrics.Workload {
	m := p.Metadata
	text := func(key string) string {
		value, _ := m.Extra[key].(string)
		return value
	}
	name := text("WORKLOAD_NAME")
	return metrics.Workload{
		Name: name, Namespace: m.Namespace, App: m.Labels["app"], Version: m.Labels["version"], Cluster: text("CLUSTER_ID"),
		Canonical: cmp.Or(m.Labels["service.istio.io/canonical-name"], m.Labels["app.kubernetes.io/name"], m.Labels["app"], name),
		Revision:  cmp.Or(m.Labels["service.istio.io/canonical-revision"], m.Labels["app.kubernetes.io/version"], m.Labels["version"], "latest"),
	}
}
