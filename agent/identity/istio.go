package identity

import (
	"cmp"
	"maps"
	"regexp"
	"strings"

	"github.com/pilotlight/pilotlight/node"
)

// istioVersion is the release of Istio whose proxies ours behaves as. Istio's control plane chooses by it what it sends.
const istioVersion = "1.31.1"

// Settings are what discovery gets of an agent's settings, beside the identity.
type Settings struct {
	Registry     string // becomes the cluster's name where none was given
	TrustDomain  string
	OwnBootstrap bool // the bootstrap is not the role's own, so that its cluster sds-grpc may be missing

	StatusPort, AdminPort         int // of the agent
	PrometheusPort, ReadinessPort int // of Envoy's listeners, 0 for none
}

// LikeIstio fills in what a proxy of Istio's always says of itself, where the environment does not. The service account is
// none of it: a wrong one would be refused, and only the platform knows it (SERVICE_ACCOUNT). Neither is the interception mode:
// a control plane takes one that is missing for REDIRECT, and readiness asks for redirected listeners only where it was said.
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
		m.Extra["DNS_FILTER"] = "true" // captured DNS is Envoy's to answer; Istio's own agent does it itself
	}
	s.tellPorts(m.Extra)
	serves := node.SDSFiles
	if s.OwnBootstrap {
		serves = node.SDSNone // an own bootstrap that has the cluster sds-grpc says ISTIO_META_PILOTLIGHT_SDS=files
	}
	m.AgentSDS = cmp.Or(m.AgentSDS, serves)
	return m
}

// tellPorts says which ports the proxy and the agent listen on themselves, so that discovery gives no service a listener in
// their place.
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

// workloadName is the Deployment, StatefulSet or the like that made a pod, as far as the pod's name tells: a Deployment
// puts a hash and five letters behind its own, a StatefulSet a number.
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
