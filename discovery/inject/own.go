package inject

import (
	"errors"
	"fmt"
	"slices"
)

// takeOut removes a container istio-proxy with the image auto from the Pod, and returns it to be merged over the
// injected one. It may be an init container, as native sidecars are.
func (i *Injector) takeOut(p pod) (map[string]any, error) {
	if p.container(initName) != nil || p.initContainer(initName) != nil {
		return nil, fmt.Errorf("spec: the Pod has a container %s of its own", initName)
	}
	key, own := "containers", p.container(proxyName)
	if own == nil {
		key, own = "initContainers", p.initContainer(proxyName)
	}
	if own == nil {
		return nil, nil
	}
	if own["image"] != "auto" {
		return nil, fmt.Errorf("spec.%s: the Pod has a container %s of its own, want the image auto where it is to change the sidecar", key, proxyName)
	}
	p.spec()[key] = slices.DeleteFunc(listAt(p.spec(), key), func(c any) bool { return nameOf(c) == proxyName })
	if len(p.containers()) == 0 {
		return nil, errors.New("spec.containers: there is only istio-proxy: a Pod that is a proxy has its own manifest")
	}
	delete(own, "image")
	delete(own, "restartPolicy") // the injector's
	for key, usual := range usually {
		if own[key] == usual {
			delete(own, key)
		}
	}
	return own, nil
}

// usually are the values that the API server writes into a container that says nothing, with the image auto, before it asks
// the webhook: no wishes of the user's, so those of the template have precedence.
var usually = map[string]string{"imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}

// runAs takes the user and group of the Pod's own container istio-proxy: what they send is not redirected.
func (w *wishes) runAs(own map[string]any) error {
	security, _ := own["securityContext"].(map[string]any)
	for _, of := range []struct {
		key string
		set *int64
	}{{"runAsUser", &w.user}, {"runAsGroup", &w.group}} {
		if security[of.key] == nil {
			continue
		}
		id, isNumber := numberOf(security[of.key])
		if !isNumber || id < 0 || id > 1<<31-1 {
			return fmt.Errorf("spec.containers: %s: securityContext.%s: is %.40v, want a number, 0 to %d", proxyName, of.key, security[of.key], 1<<31-1)
		}
		*of.set = id
	}
	return nil
}
