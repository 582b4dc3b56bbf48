package inject

import (
	"fmt"
	"slices"
)

// Namespace is the namespace of a Pod, with its labels where the caller has them.
type Namespace struct {
	Name     string
	Labels   map[string]string // nil if the caller does not have them
	Selected bool              // by its labels or the Pod's: the API server asks about no other Pods
}

const (
	injectName    = "sidecar.istio.io/inject"
	injectionName = "istio-injection"
	statusName    = "sidecar.istio.io/status"
	revisionName  = "istio.io/rev"
	configName    = "proxy.istio.io/config"
	defaultName   = "kubectl.kubernetes.io/default-container"
	mirrorName    = "kubernetes.io/config.mirror"

	proxyName = "istio-proxy"
	initName  = "istio-init"
)

// never are namespaces whose Pods are not injected: a cluster needs these Pods before any webhook can answer.
var never = []string{"kube-system", "kube-public", "kube-node-lease"}

// skip returns the reason for which a Pod is not injected; "" if it is injected. The error is for a label or annotation
// with an invalid value.
func (i *Injector) skip(ns Namespace, p pod) (string, error) {
	switch {
	case p.spec()["hostNetwork"] == true:
		return "it uses the network of its node (hostNetwork)", nil
	case slices.Contains(never, ns.Name):
		return "its namespace is " + ns.Name, nil
	case p.annotations()[mirrorName] != "":
		return "it is the mirror of a static Pod", nil
	case textAt(p.spec(), "os", "name") == "windows" || textAt(p.spec(), "nodeSelector", "kubernetes.io/os") == "windows" ||
		textAt(p.spec(), "nodeSelector", "beta.kubernetes.io/os") == "windows":
		return "it runs on Windows", nil
	}
	wish, at := p.labels()[injectName], "label"
	if wish == "" {
		wish, at = p.annotations()[injectName], "annotation"
	}
	switch wish {
	case "false":
		return fmt.Sprintf("its %s %s is false", at, injectName), nil
	case "true", "":
	default:
		return "", fmt.Errorf("%s %s: is %.40q, want true or false", at, injectName, wish)
	}
	return i.unselected(ns, p.labels()), nil
}

// injected reports whether a Pod has its sidecar.
func (p pod) injected() bool {
	return p.annotations()[statusName] != "" && (p.container(proxyName) != nil || p.initContainer(proxyName) != nil)
}

// unselected returns the reason for which labels leave a Pod to another injector or to none, as the selectors of the
// webhooks do: istio-injection of the namespace decides, else its istio.io/rev, else that of the Pod.
func (i *Injector) unselected(ns Namespace, labels map[string]string) string {
	injection, said := ns.Labels[injectionName]
	revision, own := ns.Labels[revisionName], labels[revisionName]
	switch {
	case ns.Selected || injection == "enabled":
	case said:
		return fmt.Sprintf("its namespace is labelled %s: %s", injectionName, injection)
	case revision != "" && revision != i.config.Revision:
		return fmt.Sprintf("its namespace is labelled %s: %s, and this is %s", revisionName, revision, i.config.Revision)
	case revision == "" && own != "" && own != i.config.Revision:
		return fmt.Sprintf("its label %s is %s, and this is %s", revisionName, own, i.config.Revision)
	}
	return ""
}
