package node

import (
	"slices"
	"strings"
)

// reserved are variables of an agent that runs beside a Pod's program: those that injection sets, those that would give
// the proxy another identity than its Pod's, and those that change how programs are started: pod-init runs as root.
var reserved = []string{
	"POD_NAME", "POD_NAMESPACE", "INSTANCE_IP", "HOST_IP", "SERVICE_ACCOUNT", "PROXY_CONFIG", "ISTIO_KUBE_APP_PROBERS", "ISTIO_PROMETHEUS_ANNOTATIONS",
	"ISTIO_META_CLUSTER_ID", "ISTIO_META_INTERCEPTION_MODE", "ISTIO_META_NODE_NAME", "ISTIO_META_NAMESPACE", "ISTIO_META_SERVICE_ACCOUNT",
	"PILOTLIGHT_ID", "PILOTLIGHT_IP", "PILOTLIGHT_SERVICEREGISTRY", "PILOTLIGHT_DOMAIN", "PILOTLIGHT_TRUST_DOMAIN", "PILOTLIGHT_STATUS_PORT",
	"PILOTLIGHT_DISCOVERY_ADDRESS", "PILOTLIGHT_SERVICE_CLUSTER", "PILOTLIGHT_PROXY_LOG_LEVEL",
	"PATH", "BASH_ENV", "GLIBC_TUNABLES",
}

// Reserved reports whether the configuration of an injected proxy must not set a variable of its agent.
func Reserved(variable string) bool {
	return slices.Contains(reserved, variable) || strings.HasPrefix(variable, "LD_")
}
