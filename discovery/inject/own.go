package inject

import (
	"errors"
	"fmt"
)

// takeOut removes a container istio-proxy with the image auto from the Pod, and returns it to be merged over the
// injected one.
func (i *Injector) takeOut(p pod) (map[string]any, error) {
	own := p.container(proxyName)
	for _, name := range []string{proxyName, initName} {
		if p.initContainer(name) != nil || name == initName && p.container(name) != nil {
			return nil, fmt.Errorf("spec: the Pod has a container %s of its own", name)
		}
	}
	if own == nil {
		return nil, nil
	}
	if own["image"] != "auto" {
		return nil, fmt.Errorf("spec.containers: the Pod has a container %s of its own, want the image auto where it is to change the sidecar", proxyName)
	}
	var kept []any
	for _, c := range p.containers() {
		if c["name"] != proxyName {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return nil, errors.New("spec.containers: there is only istio-proxy: a Pod that is a proxy has its own manifest")
	}
	p.spec()["containers"] = kept
	delete(own, "image")
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
