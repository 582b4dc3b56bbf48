package identity

import (
	"cmp"
	"maps"
	"regexp"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

// istioVersion is the release of Istio whose proxies this proxy behaves like. Istio's control plane chooses by it which
// configuration it sends.
const istioVersion = "1.31.1"

// Settings are the agent's settings that discovery receives, beside the identity.
type Settings struct {
	Registry     string // the cluster's name if none is set
	TrustDomain  string
	OwnBootstrap bool // the bootstrap is not the role's own, so it may have no cluster sds-grpc

	StatusPort, AdminPort         int // of the agent
	PrometheusPort, ReadinessPort int // of Envoy's listeners, 0 for none
}

// LikeIstio adds the metadata that a proxy of Istio always sends, where the environment does not set it. It does not
// add the service account: a wrong one would be refused, and only the platform can set it (SERVICE_ACCOUNT). It does
// not add the interception mode either: a control plane assumes REDIRECT without one, and readiness requires listeners
// for redirected traffic only if the mode was set.
func LikeIstio(m node.Metadata, id node.ID, env Environment, s Settings) node.Metadata {
	extra := map[string]any{}
	maps.Copy(extra, m.Extra)
	m.Extra = extra
	name := cmp.Or(env["POD_NAME"], id.Name)
	for key, value := range map[string]string{
		"ISTIO_VERSION": istioVersion,
		"CLUSTER_ID":    s.Registry, // Kubernetes, as Istio calls a single cluster
		"MESH_ID":       s.TrustDomain,
		"NAME":          name,
		"WORKLOAD_NAME": workloadName(name, m.Labels),
	} {
		if _, said := m.Extra[key]; !said && value != "" {
			m.Extra[key] = value
		}
	}
	if _, said := m.Extra["DNS_FILTER"]; !said && m.Extra["DNS_CAPTURE"] == "true" {
		m.Extra["DNS_FILTER"] = "true" // Envoy answers captured DNS; in Istio the agent does
	}
	s.tellPorts(m.Extra)
	serves, reports := node.SDSFiles, node.ReportRequests
	if s.OwnBootstrap {
		serves, reports = node.SDSNone, node.ReportNothing // for an own bootstrap with the cluster sds-grpc, set ISTIO_META_PILOTLIGHT_SDS=files
	}
	m.AgentSDS, m.Reports = cmp.Or(m.AgentSDS, serves), cmp.Or(m.Reports, reports)
	return m
}

// tellPorts adds the ports on which the proxy and the agent listen themselves, so that discovery creates no listener
// for a service on them.
func (s Settings) tellPorts(extra map[string]any) {
	for key, port := range map[string]int{"ENVOY_PROMETHEUS_PORT": s.PrometheusPort, "ENVOY_STATUS_PORT": s.ReadinessPort} {
		if port != 0 { // one of a custom bootstrap may be in the environment
			extra[key] = port
		}
	}
	said, _ := extra[ProxyConfigVariable].(map[string]any)
	config := map[string]any{}
	maps.Copy(config, said)
	config["statusPort"], config["proxyAdminPort"] = s.StatusPort, s.AdminPort
	extra[ProxyConfigVariable] = config
}

// workloadName returns the name of the Deployment, StatefulSet or the like that made a pod, computed from the pod's
// name: a Deployment appends a hash and five letters to its own name, a StatefulSet a number.
func workloadName(pod string, labels map[string]string) string {
	if hash := labels["pod-template-hash"]; hash != "" {
		if name, rest, found := strings.Cut(pod, "-"+hash+"-"); found && len(rest) == 5 {
			return name
		}
	}
	if labels["statefulset.kubernetes.io/pod-name"] == pod {
		return regexp.MustCompile(`-\d+$`).ReplaceAllString(pod, "")
	}
	return pod
}
