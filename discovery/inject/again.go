package inject

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sort"
	"strconv"
)

const probersName = "ISTIO_KUBE_APP_PROBERS" // the variable that tells the agent the programs' own probes

// again reviews a Pod that has its sidecar already, since the API server asks once more after other webhooks have changed
// the Pod: the probes of containers that they have added are led to the agent too, and the order of containers is mended.
// All else stays as it is. A sidecar that another injector has made is left alone.
func (i *Injector) again(given map[string]any) (Result, error) {
	unchanged := Result{Pod: given, Skipped: "it has its sidecar already"}
	p := pod(clone(given).(map[string]any))
	sidecar, native := p.initContainer(proxyName), true
	if sidecar == nil {
		sidecar, native = p.container(proxyName), false
	}
	port := statusPortOf(sidecar)
	if port == 0 {
		return unchanged, nil
	}
	w := &wishes{statusPort: port, probes: i.config.RewriteProbes}
	if text, said := p.annotations()["sidecar.istio.io/rewriteAppHTTPProbers"]; said && isBool(text) == nil {
		w.probes = isTrue(text)
	}
	if w.probes {
		if err := addProbes(sidecar, w.reroute(p, native)); err != nil {
			return Result{}, err
		}
	}
	p.order(native, holds(sidecar))
	if reflect.DeepEqual(map[string]any(p), given) {
		return unchanged, nil
	}
	slices.Sort(w.warnings)
	return Result{Pod: p, Warnings: w.warnings}, nil
}

// statusPortOf returns the port of the agent, by its arguments; 0 if they have none.
func statusPortOf(sidecar map[string]any) int {
	args := listAt(sidecar, "args")
	at := slices.Index(args, any("--statusPort"))
	if at < 0 || at+1 == len(args) {
		return 0
	}
	text, _ := args[at+1].(string)
	port, _ := strconv.Atoi(text)
	return port
}

// addProbes adds probes to those that the agent of a sidecar knows.
func addProbes(sidecar map[string]any, probes map[string]any) error {
	if len(probes) == 0 {
		return nil
	}
	all := map[string]any{}
	variable := named(objects(sidecar["env"]), probersName)
	if variable != nil {
		text, _ := variable["value"].(string)
		if json.Unmarshal([]byte(text), &all) != nil || all == nil {
			return errors.New("container " + proxyName + ": its variable " + probersName + " is no JSON object")
		}
	}
	for path, probe := range probes {
		all[path] = probe
	}
	if variable == nil {
		sidecar["env"] = append(slices.Clip(listAt(sidecar, "env")), value(probersName, inVariable(all)))
		return nil
	}
	variable["value"] = inVariable(all)
	return nil
}

// holds reports whether the program's containers wait until the sidecar serves: its hook waits, and it is the first of them.
func holds(sidecar map[string]any) bool {
	hooks, _ := sidecar["lifecycle"].(map[string]any)
	start, _ := hooks["postStart"].(map[string]any)
	exec, _ := start["exec"].(map[string]any)
	return slices.Contains(listAt(exec, "command"), any("wait"))
}

// order moves the injected containers to their places: with a native sidecar pod-init and the sidecar before the program's
// init containers, else pod-init after them, as it redirects what they send to a sidecar that does not run yet.
func (p pod) order(native, hold bool) {
	place := map[string]map[string]int{"initContainers": {initName: 1}, "containers": {}}
	if native {
		place["initContainers"] = map[string]int{initName: -2, proxyName: -1}
	} else if hold {
		place["containers"] = map[string]int{proxyName: -1}
	}
	for key, of := range place {
		list := listAt(p.spec(), key)
		sort.SliceStable(list, func(i, j int) bool { return of[nameOf(list[i])] < of[nameOf(list[j])] })
	}
}

func nameOf(o any) string { m, _ := o.(map[string]any); name, _ := m["name"].(string); return name }
