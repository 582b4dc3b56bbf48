package inject

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	w := &wishes{config: map[string]any{}, origins: map[string]string{}, flags: map[string]string{}}
	w.lay(w.config, i.config.ProxyConfig, "", configFrom)
	_ = w.configure(configFrom) // New has returned its faults
	return w.warnings
}

// Pod injects a Pod of a namespace, or the template of a workload, with the ProxyConfig of layers, which it calls only
// for a Pod that is to be injected. It returns an error for invalid or contradictory settings, and that of layers.
func (i *Injector) Pod(ns Namespace, given map[string]any, layers Layers) (Result, error) {
	if pod(given).injected() {
		return i.again(given)
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
		asked = w.reroute(p, native)
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
	if err := join(p, part, own, native, w.hold); err != nil {
		return Result{}, err
	}
	annotations[statusName] = i.status(part, native)
	if annotations[defaultName] == nil {
		annotations[defaultName] = first
	}
	i.doubts(p, w, native)
	slices.Sort(w.warnings)
	if w.more > 0 {
		w.warnings = append(w.warnings, fmt.Sprintf("and %d more", w.more))
	}
	return Result{Pod: p, Warnings: w.warnings}, nil
}

// read returns what a Pod asks for, and its own parts of the sidecar, which it takes out of the Pod.
func (i *Injector) read(ns Namespace, p pod, layers Layers) (w *wishes, own map[string]any, err error) {
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
	if w, err = i.wish(p, joined); err != nil {
		return nil, nil, err
	}
	if own, err = i.takeOut(p); err != nil {
		return nil, nil, err
	}
	return w, own, w.runAs(own)
}

// doubts warns about settings of a Pod that have unexpected effects with a sidecar.
func (i *Injector) doubts(p pod, w *wishes, native bool) {
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
		if c["name"] != proxyName && c["name"] != initName && w.mode != "NONE" && (of(own) || of(security) && own["runAsUser"] == nil) {
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
