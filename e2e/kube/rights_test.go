//go:build kube

package kube

import (
	"cmp"
	"fmt"
	"strings"
)

// allow is a role with these rules in a namespace, or in the cluster where that is empty, and its binding to discovery.
func allow(namespace, name string, rules ...string) string {
	in, kind := "", "ClusterRole"
	if namespace != "" {
		in, kind = ", namespace: "+namespace, "Role"
	}
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]s
metadata: {name: %[2]s%[3]s}
rules:
- %[4]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata: {name: %[2]s%[3]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: discovery}]`, kind, name, in, strings.Join(rules, "\n- "))
}

// may is a rule: verbs for resources of a group. Several are separated by commas.
func may(verbs, group, resources string) string {
	return fmt.Sprintf("{apiGroups: [%s], resources: [%s], verbs: [%s]}", cmp.Or(group, `""`), resources, verbs)
}

// mayNamed is a rule for the objects of one name.
func mayNamed(name, verbs, group, resources string) string {
	return strings.TrimSuffix(may(verbs, group, resources), "}") + ", resourceNames: [" + name + "]}"
}

// leases is what a replica needs to lead.
func leases(namespace string) string {
	return allow(namespace, "leader", may("get, create, update", "coordination.k8s.io", "leases"))
}

const istioKinds = "destinationrules, gateways, proxyconfigs, serviceentries, sidecars, virtualservices, workloadentries, workloadgroups"

const policyKinds = "authorizationpolicies, peerauthentications, requestauthentications"

// rights are all that discovery needs.
var rights = allow("", "discovery",
	may("list, watch", "", "services, pods, nodes, namespaces, configmaps"),
	may("list, watch", "discovery.k8s.io", "endpointslices"),
	may("list, watch", "apiextensions.k8s.io", "customresourcedefinitions"),
	may("list, watch", "networking.istio.io", istioKinds),
	may("list, watch", "security.istio.io", policyKinds))
