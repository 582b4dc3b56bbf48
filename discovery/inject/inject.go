package inject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/pilotlight/pilotlight/internal/template"
)

// Injector injects sidecars by one Config and one template. It is immutable.
type Injector struct {
	config   Config
	template *template.Template
}

// Result is the result for one Pod.
type Result struct {
	Pod      map[string]any // with its sidecar; the unchanged argument if it is skipped
	Skipped  string         // the reason for which it is not injected; "" if it is injected
	Warnings []string       // annotations and settings without effect, and likely mistakes
}

// New returns an Injector, or the faults of the template, which is tried with Pods of each mode.
func New(c Config, text string) (*Injector, error) {
	parsed, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	c.ClusterDomain = cmp.Or(c.ClusterDomain, "cluster.local")
	i := &Injector{c, parsed}
	for _, mode := range []string{"REDIRECT", "TPROXY", "NONE"} {
		for _, native := range []string{"true", "false"} {
			trial := map[string]any{
				"metadata": map[string]any{"name": "trial", "annotations": map[string]any{
					"sidecar.istio.io/interceptionMode": mode, "sidecar.istio.io/nativeSidecar": native,
					"proxy.istio.io/config":       `{"proxyMetadata": {"A": "b: c"}, "holdApplicationUntilProxyStarts": true}`,
					"sidecar.istio.io/userVolume": `{"trial": {"emptyDir": {}}}`, "sidecar.istio.io/userVolumeMount": `{"trial": {"mountPath": "/trial"}}`,
				}},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "trial", "image": "trial"}}},
			}
			if _, err := i.Pod(Namespace{Name: "trial"}, trial, nil); err != nil {
				return nil, err
			}
		}
	}
	return i, nil
}

// ClusterDomain returns the DNS domain of the services of the cluster, for which sidecars are configured.
func (i *Injector) ClusterDomain() string { return i.config.ClusterDomain }

// Doubts returns what the Config's ProxyConfig sets without effect.
func (i *Injector) Doubts() []string {
	w := &annotations{config: map[string]any{}, origins: map[string]string{}, flags: map[string]string{}}
	w.mergeLayer(w.config, i.config.ProxyConfig, "", configFrom)
	_ = w.configure(configFrom) // New has returned its faults
	return w.warnings
}

// Pod injects a Pod of a namespace, or the template of a workload, with the ProxyConfig of layers, which it calls only
// for a Pod that is to be injected. It returns an error for invalid or contradictory settings, and that of layers.
func (i *Injector) Pod(ns Namespace, given map[string]any, layers Layers) (Result, error) {
	if pod(given).injected() {
		return i.reinject(given)
	}
	why, err := i.skip(ns, pod(given))
	if err != nil || why != "" {
		return Result{Pod: given, Skipped: why}, err
	}
	p := pod(clone(given).(map[string]any))
	w, own, err := i.read(ns, p, layers)
	if err != nil {
		return Result{}, err
	}
	first := p.containers()[0]["name"] // the sidecar may come before it
	native := w.native != nil && *w.native
	asked := map[string]any{}
	if w.probes {
		asked = w.rewriteProbes(p, native)
	}
	annotations, _ := p.metadata()["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		p.metadata()["annotations"] = annotations
	}
	scrape := w.metricsOf(annotations)
	part, err := render(i.template, i.facts(ns, pod(given), w, native, asked, scrape))
	if err != nil {
		return Result{}, err
	}
	if err := mergePod(p, part, own, native, w.hold); err != nil {
		return Result{}, err
	}
	annotations[statusName] = i.status(part, native)
	if annotations[defaultName] == nil {
		annotations[defaultName] = first
	}
	i.checkPod(p, w, native)
	slices.Sort(w.warnings)
	if w.more > 0 {
		w.warnings = append(w.warnings, fmt.Sprintf("and %d more", w.more))
	}
	return Result{Pod: p, Warnings: w.warnings}, nil
}

// read returns what a Pod asks for, and its own parts of the sidecar, which it takes out of the Pod.
func (i *Injector) read(ns Namespace, p pod, layers Layers) (w *annotations, own map[string]any, err error) {
	if err := p.sound(); err != nil {
		return nil, nil, err
	}
	if p["metadata"] == nil {
		p["metadata"] = map[string]any{}
	}
	if p.metadata() == nil {
		return nil, nil, errors.New("metadata: is no object")
	}
	joined, err := layers.of(ns.Name, p.labels())
	if err != nil {
		return nil, nil, err
	}
	if w, err = i.readAnnotations(p, joined); err != nil {
		return nil, nil, err
	}
	if own, err = i.extractProxy(p); err != nil {
		return nil, nil, err
	}
	return w, own, w.runAs(own)
}

// checkPod warns about settings of a Pod that have unexpected effects with a sidecar.
func (i *Injector) checkPod(p pod, w *annotations, native bool) {
	if own := p.labels()[revisionName]; own != "" && own != i.config.Revision {
		w.warn("label %s: is %.60s, and the label of its namespace has precedence: the sidecar is of %s", revisionName, own, i.config.Revision)
	}
	security, _ := p.spec()["securityContext"].(map[string]any)
	of := func(o map[string]any) bool {
		user, said := numberOf(o["runAsUser"])
		group, saidGroup := numberOf(o["runAsGroup"])
		return said && user == w.user || saidGroup && group == w.group
	}
	ids := strconv.FormatInt(w.user, 10)
	if w.group != w.user {
		ids += " or " + strconv.FormatInt(w.group, 10)
	}
	all := append(p.containers(), p.initContainers()...)
	for _, c := range all {
		own, _ := c["securityContext"].(map[string]any)
		if c["name"] != proxyName && c["name"] != initName && w.traffic.mode != "NONE" &&
			(of(own) || of(security) && own["runAsUser"] == nil) {
			w.warn("container %s: runs as %s, the sidecar's user or group, so its traffic passes the mesh by", c["name"], ids)
		}
	}
	if drain, err := time.ParseDuration(w.flags["terminationDrainDuration"]); err == nil {
		grace := int64(30) // of Kubernetes
		if n, said := numberOf(p.spec()["terminationGracePeriodSeconds"]); said {
			grace = n
		}
		if drain > time.Duration(grace)*time.Second {
			w.warn("terminationDrainDuration: is %v, and the Pod is killed after its terminationGracePeriodSeconds, %d", drain, grace)
		}
	}
	used := map[int64]string{15001: "outbound", 15006: "inbound", int64(w.statusPort): "status"}
	for _, c := range p.containers() {
		for _, port := range objects(c["ports"]) {
			if n, _ := numberOf(port["containerPort"]); c["name"] != proxyName && used[n] != "" {
				w.warn("container %s: its port %d is the sidecar's, for %s; one of the two cannot listen", c["name"], n, used[n])
			}
		}
	}
	if policy := textAt(p.spec(), "restartPolicy"); !native && (policy == "Never" || policy == "OnFailure") {
		w.warn("restartPolicy %s: the sidecar keeps the Pod from completing; start the program by `agent wait --shutdown -- CMD`, or use a native sidecar", policy)
	}
}

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

const probersName = "ISTIO_KUBE_APP_PROBERS" // the variable that tells the agent the programs' own probes

// reinject reviews a Pod that has its sidecar already, since the API server asks once more after other webhooks have
// changed the Pod: the probes of containers that they have added are led to the agent too, and the order of containers
// is mended. All else stays as it is. A sidecar that another injector has made is left alone.
func (i *Injector) reinject(given map[string]any) (Result, error) {
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
	w := &annotations{statusPort: port, probes: i.config.RewriteProbes}
	if text, said := p.annotations()["sidecar.istio.io/rewriteAppHTTPProbers"]; said && isBool(text) == nil {
		w.probes = isTrue(text)
	}
	if w.probes {
		if err := addProbes(sidecar, w.rewriteProbes(p, native)); err != nil {
			return Result{}, err
		}
	}
	p.sortContainers(native, holdsApplication(sidecar))
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

// holdsApplication reports whether the program's containers wait until the sidecar serves: its hook waits, and it is
// the first of them.
func holdsApplication(sidecar map[string]any) bool {
	hooks, _ := sidecar["lifecycle"].(map[string]any)
	start, _ := hooks["postStart"].(map[string]any)
	exec, _ := start["exec"].(map[string]any)
	return slices.Contains(listAt(exec, "command"), any("wait"))
}

// sortContainers moves the injected containers to their places: with a native sidecar pod-init and the sidecar before
// the program's init containers, else pod-init after them, as it redirects what they send to a sidecar that does not
// run yet.
func (p pod) sortContainers(native, hold bool) {
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
