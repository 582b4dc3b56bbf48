package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// keyed are the lists of a Pod whose items have a key.
var keyed = map[string]string{
	"containers": "name", "initContainers": "name", "volumes": "name", "imagePullSecrets": "name",
	"env": "name", "volumeMounts": "mountPath", "ports": "containerPort",
}

// handlers are the ways of hooks and probes.
var handlers = []string{"exec", "httpGet", "tcpSocket", "grpc", "sleep"}

// mergePod adds a part to a Pod. own is merged over the part's sidecar.
func mergePod(p, part pod, own map[string]any, native, hold bool) error {
	if own != nil {
		sidecar := part.container(proxyName)
		if sidecar == nil {
			return fmt.Errorf("the template makes no container %s, which the Pod changes", proxyName)
		}
		overlay(sidecar, own)
	}
	if err := mergeContainers(p, part, native, hold); err != nil {
		return err
	}
	if err := mergeSpec(p, part); err != nil {
		return err
	}
	for _, key := range []string{"labels", "annotations"} {
		add, _ := part.metadata()[key].(map[string]any)
		has, _ := p.metadata()[key].(map[string]any)
		if has == nil && len(add) > 0 {
			has = map[string]any{}
			p.metadata()[key] = has
		}
		setDefaults(has, add)
	}
	return nil
}

// mergeContainers adds a part's containers. A native sidecar, and its init containers, stand before the program's; one
// that the program waits for stands first.
func mergeContainers(p, part pod, native, hold bool) error {
	var before, after []any // of the program's init containers
	for _, c := range part.initContainers() {
		if p.initContainer(textAt(c, "name")) != nil || p.container(textAt(c, "name")) != nil {
			return fmt.Errorf("spec.initContainers: the Pod has a container %s of its own", c["name"])
		}
		if native {
			before = append(before, c)
		} else {
			after = append(after, c)
		}
	}
	var first, last []any // of the containers
	for _, c := range part.containers() {
		if p.initContainer(textAt(c, "name")) != nil || p.container(textAt(c, "name")) != nil {
			return fmt.Errorf("spec.containers: the Pod has a container %s of its own", c["name"])
		}
		switch {
		case native && c["name"] == proxyName:
			c["restartPolicy"] = "Always"
			before = append(before, c)
		case hold && c["name"] == proxyName:
			first = append(first, c)
		default:
			last = append(last, c)
		}
	}
	spec := p.spec()
	setList(spec, "initContainers", before, listAt(spec, "initContainers"), after)
	setList(spec, "containers", first, listAt(spec, "containers"), last)
	return nil
}

// mergeSpec adds the other fields of a part's spec. The Pod's own have precedence.
func mergeSpec(p, part pod) error {
	spec := p.spec()
	for key, value := range part.spec() {
		switch theirs := spec[key]; {
		case key == "containers" || key == "initContainers":
		case keyed[key] != "":
			for _, item := range objects(value) {
				if there := named(objects(spec[key]), textAt(item, "name")); there != nil && key != "imagePullSecrets" {
					return fmt.Errorf("spec.%s: there is a %.60s already", key, item["name"])
				} else if there == nil {
					spec[key] = append(slices.Clip(listAt(spec, key)), item)
				}
			}
		case theirs == nil:
			spec[key] = value
		default:
			if below, ok := theirs.(map[string]any); ok {
				above, _ := value.(map[string]any)
				setDefaults(below, above)
			}
		}
	}
	return nil
}

func listAt(o map[string]any, key string) []any { list, _ := o[key].([]any); return list }

func setList(o map[string]any, key string, parts ...[]any) {
	if list := slices.Concat(parts...); len(list) > 0 {
		o[key] = list
	}
}

// setDefaults adds the fields that are missing.
func setDefaults(has, add map[string]any) {
	for key, value := range add {
		if _, said := has[key]; !said && has != nil {
			has[key] = value
		}
	}
}

// overlay merges an object over another; the items of keyed lists are merged by their key.
func overlay(below, above map[string]any) {
	for key, value := range above {
		has, over := below[key], value
		switch over := over.(type) {
		case map[string]any:
			if object, ok := has.(map[string]any); ok {
				if slices.ContainsFunc(handlers, func(way string) bool { return over[way] != nil }) { // a hook or a probe has one
					for _, way := range handlers {
						delete(object, way)
					}
				}
				overlay(object, over)
				continue
			}
		case []any:
			if by := keyed[key]; by != "" {
				below[key] = overlayList(listAt(below, key), over, by)
				continue
			}
		}
		below[key] = over
	}
}

func overlayList(below, above []any, by string) []any {
	out := slices.Clone(below)
	for _, item := range above {
		o, _ := item.(map[string]any)
		i := slices.IndexFunc(out, func(b any) bool { m, _ := b.(map[string]any); return o != nil && m != nil && same(m[by], o[by]) })
		if i < 0 {
			out = append(out, item)
			continue
		}
		merged, _ := clone(out[i]).(map[string]any)
		overlay(merged, o)
		if by == "name" && o["value"] != nil { // a variable has either value or valueFrom
			delete(merged, "valueFrom")
		}
		out[i] = merged
	}
	return out
}

func same(a, b any) bool {
	n, isNumber := numberOf(a)
	m, isToo := numberOf(b)
	return isNumber && isToo && n == m || !isNumber && a == b
}

// status writes the names of the added parts into an annotation.
func (i *Injector) status(part pod, native bool) string {
	list := func(items []map[string]any) []string {
		out := []string{}
		for _, item := range items {
			out = append(out, textAt(item, "name"))
		}
		return out
	}
	initial, containers := list(part.initContainers()), list(part.containers())
	if native {
		initial = append(initial, proxyName)
		containers = slices.DeleteFunc(containers, func(name string) bool { return name == proxyName })
	}
	text, _ := json.Marshal(map[string]any{ // of texts
		"initContainers": initial, "containers": containers, "volumes": list(objects(part.spec()["volumes"])),
		"imagePullSecrets": list(objects(part.spec()["imagePullSecrets"])), "revision": i.config.Revision,
	})
	return string(text)
}

// extractProxy removes a container istio-proxy with the image auto from the Pod, and returns it to be merged over the
// injected one. It may be an init container, as native sidecars are.
func (i *Injector) extractProxy(p pod) (map[string]any, error) {
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
	for key, usual := range containerDefaults {
		if own[key] == usual {
			delete(own, key)
		}
	}
	return own, nil
}

// containerDefaults are the values that the API server writes into a container that says nothing, with the image auto,
// before it asks the webhook: no wishes of the user's, so those of the template have precedence.
var containerDefaults = map[string]string{
	"imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}

// runAs takes the user and group of the Pod's own container istio-proxy: what they send is not redirected.
func (w *annotations) runAs(own map[string]any) error {
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
