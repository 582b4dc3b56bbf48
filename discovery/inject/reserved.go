package inject

import (
	"regexp"
	"slices"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// longestVariable is the length of a variable and its value with which Linux still starts a program: 32 pages, with = and
// the zero byte.
const longestVariable = 32*4096 - 2

// reserved are the variables that proxyMetadata must not set: those that the injector sets, those that would give the
// proxy another identity than its Pod's, and those that change how programs are started: pod-init runs as root. Package
// config has the same list for objects.
var reserved = []string{
	"POD_NAME", "POD_NAMESPACE", "INSTANCE_IP", "HOST_IP", "SERVICE_ACCOUNT", "PROXY_CONFIG", "ISTIO_KUBE_APP_PROBERS", "ISTIO_PROMETHEUS_ANNOTATIONS",
	"ISTIO_META_CLUSTER_ID", "ISTIO_META_INTERCEPTION_MODE", "ISTIO_META_NODE_NAME", "ISTIO_META_NAMESPACE", "ISTIO_META_SERVICE_ACCOUNT",
	"PILOTLIGHT_ID", "PILOTLIGHT_IP", "PILOTLIGHT_SERVICEREGISTRY", "PILOTLIGHT_DOMAIN", "PILOTLIGHT_TRUST_DOMAIN", "PILOTLIGHT_STATUS_PORT",
	"PILOTLIGHT_DISCOVERY_ADDRESS", "PILOTLIGHT_SERVICE_CLUSTER", "PILOTLIGHT_PROXY_LOG_LEVEL",
	"PATH", "BASH_ENV", "GLIBC_TUNABLES",
}

// Reserved returns the variables that proxyMetadata must not set, besides those whose names begin with LD_.
func Reserved() []string { return slices.Clone(reserved) }

func isReserved(name string) bool {
	return slices.Contains(reserved, name) || strings.HasPrefix(name, "LD_")
}
