package inject

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/internal/template"
)

// encoder is the name of the function that is appended to each action of a template.
const encoder = "asOneValue"

// parseTemplate parses a template and changes it so that every {{action}} writes one JSON value, which is also one YAML
// value.
func parseTemplate(text string) (*template.Template, error) {
	parsed, err := template.Parse("template", text, template.Functions{encoder: asOneValue})
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	for t := range parsed.Trees() {
		encode(t, t.Root)
	}
	return parsed, nil
}

// asOneValue writes a value as JSON without characters that end a line in YAML, such as U+0085.
func asOneValue(args ...any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d values, want one", len(args))
	}
	text, err := json.Marshal(args[0])
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r >= 0x7f && r <= 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String(), nil
}

// encode appends the encoder to each action below a node that writes a value.
func encode(t *parse.Tree, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			encode(t, child)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 { // an action with a declaration sets a variable
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos}
			call.Args = []parse.Node{parse.NewIdentifier(encoder).SetPos(n.Pos).SetTree(t)}
			n.Pipe.Cmds = append(n.Pipe.Cmds, call)
		}
	case *parse.IfNode:
		encode(t, n.List)
		encode(t, n.ElseList)
	case *parse.RangeNode:
		encode(t, n.List)
		encode(t, n.ElseList)
	case *parse.WithNode:
		encode(t, n.List)
		encode(t, n.ElseList)
	}
}

// render runs the template and returns its part of a Pod.
func render(t *template.Template, facts Facts) (pod, error) {
	var out bytes.Buffer
	if err := t.Execute(&out, facts); err != nil {
		return nil, fmt.Errorf("run template: %w", err)
	}
	text, err := yaml.YAMLToJSONStrict(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the template makes no YAML: %w", err)
	}
	var part pod
	if err := utiljson.Unmarshal(text, &part); err != nil {
		return nil, fmt.Errorf("the template makes no object: %w", err)
	}
	var typed struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec corev1.PodSpec `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &typed); err != nil {
		return nil, fmt.Errorf("the template makes no part of a Pod: %w", err)
	}
	if len(typed.Spec.Containers)+len(typed.Spec.InitContainers) == 0 {
		return nil, fmt.Errorf("the template makes no container")
	}
	return part, nil
}

// Facts is the input of a template. Each field is checked, or holds any text, which the template writes as one JSON
// value.
type Facts struct {
	Pod             PodFacts
	Image           string
	ImagePullPolicy string // empty for Kubernetes' own
	PullSecrets     []map[string]string
	Args            []string // of the agent
	Env             []any    // of the agent: {name, value} and {name, valueFrom}
	InitArgs        []string // of pod-init; nil if no traffic is redirected
	InitEnv         []any
	Resources       map[string]any
	StatusPort      int
	Readiness       map[string]int // fields of the readiness probe
	Probed          bool           // the kubelet probes the sidecar
	UID             int
	TPROXY          bool
	Hold            bool // the program's containers wait until the sidecar serves
	Native          bool // the sidecar becomes an init container that stays
	Volumes, Mounts []any

	Enrolled  bool // the agent gets the Pod's certificate by a token of the Pod
	MutualTLS bool // clients may speak mutual TLS to the Pod
}

// Where the agent finds its token and the roots of the authority, as in Istio.
const (
	tokenFile = "/var/run/secrets/tokens/istio-token"
	rootsFile = "/var/run/secrets/istio/root-cert.pem"
)

// PodFacts are the metadata and the service account of the Pod.
type PodFacts struct {
	Namespace, Name, ServiceAccount string
	Labels, Annotations             map[string]string
}

const uid = 1337 // of the image

func field(name, path string) any {
	return map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": path}}}
}

func value(name, text string) any { return map[string]any{"name": name, "value": text} }

// facts returns the Facts of a Pod.
func (i *Injector) facts(ns Namespace, p pod, w *annotations, native bool, probes map[string]any, scrape string) Facts {
	c := i.config
	f := Facts{
		Pod: PodFacts{
			Namespace: ns.Name, Name: cmp.Or(textAt(p, "metadata", "name"), textAt(p, "metadata", "generateName")),
			ServiceAccount: cmp.Or(textAt(p, "spec", "serviceAccountName"), "default"), Labels: p.labels(), Annotations: p.annotations(),
		},
		Image: w.image.name, ImagePullPolicy: string(c.ImagePullPolicy), StatusPort: w.statusPort,
		Probed: !w.unprobed, UID: uid, TPROXY: w.traffic.mode == "TPROXY",
		Hold: w.hold && !native, Native: native, Volumes: w.volumes, Mounts: w.mounts, Resources: w.resources(c),
		Enrolled: c.CAAddress != "", MutualTLS: c.CAAddress != "" && w.traffic.mode != "NONE",
		Readiness: map[string]int{"initialDelaySeconds": 0, "periodSeconds": 15, "timeoutSeconds": 3, "failureThreshold": 4},
	}
	maps.Copy(f.Readiness, w.readiness)
	f.Readiness["periodSeconds"] = max(1, f.Readiness["periodSeconds"])
	f.Readiness["failureThreshold"] = max(1, f.Readiness["failureThreshold"])
	for _, name := range c.ImagePullSecrets {
		f.PullSecrets = append(f.PullSecrets, map[string]string{"name": name})
	}
	f.Args = i.args(ns, w, f.Pod)
	f.Env = []any{
		field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("INSTANCE_IP", "status.podIP"),
		field("HOST_IP", "status.hostIP"), field("SERVICE_ACCOUNT", "spec.serviceAccountName"), field("ISTIO_META_NODE_NAME", "spec.nodeName"),
		value("ISTIO_META_CLUSTER_ID", literal(c.ClusterID)), value("ISTIO_META_INTERCEPTION_MODE", w.traffic.mode),
	}
	for _, further := range []struct{ name, text string }{
		{probersName, inVariable(probes)},
		{"ISTIO_PROMETHEUS_ANNOTATIONS", scrape},
		{"PROXY_CONFIG", w.proxyConfigVariable()},
	} {
		if further.text != "" && further.text != "{}" {
			f.Env = append(f.Env, value(further.name, further.text))
		}
	}
	metadata, _ := w.textMap("proxyMetadata") // checked before
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		f.InitEnv = append(f.InitEnv, value(name, metadata[name]))
	}
	if network := cmp.Or(p.labels()["topology.istio.io/network"], c.Network); network != "" && metadata["ISTIO_META_NETWORK"] == "" {
		metadata["ISTIO_META_NETWORK"] = literal(network)
	}
	if mesh, ok := w.config["meshId"].(string); ok && metadata["ISTIO_META_MESH_ID"] == "" {
		metadata["ISTIO_META_MESH_ID"] = literal(mesh)
	}
	if left := w.configuredInterception(f.Pod.Annotations); left != "" && metadata["ISTIO_METAJSON_ANNOTATIONS"] == "" {
		metadata["ISTIO_METAJSON_ANNOTATIONS"] = literal(left)
	}
	// An ordinary sidecar is told to stop together with the program, whose last calls it must still carry.
	if !native && metadata["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"] == "" && metadata["MINIMUM_DRAIN_DURATION"] == "" {
		metadata["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"] = "false"
	}
	if w.override != "" {
		f.Env = append(f.Env, value("ISTIO_BOOTSTRAP_OVERRIDE", "/etc/istio/custom-bootstrap/custom_bootstrap.json"))
		f.Volumes = append(slices.Clip(f.Volumes), map[string]any{"name": "custom-bootstrap-volume", "configMap": map[string]any{"name": w.override}})
		f.Mounts = append(slices.Clip(f.Mounts), map[string]any{"name": "custom-bootstrap-volume", "mountPath": "/etc/istio/custom-bootstrap", "readOnly": true})
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		f.Env = append(f.Env, value(name, metadata[name]))
	}
	if w.traffic.mode != "NONE" {
		f.InitArgs = w.initArgs()
	}
	return f
}

// args returns the arguments of the agent.
func (i *Injector) args(ns Namespace, w *annotations, p PodFacts) []string {
	c := i.config
	out := []string{"proxy", "sidecar"}
	add := func(flag, value string) {
		if value != "" {
			out = append(out, "--"+flag, value)
		}
	}
	if w.flags["discoveryAddress"] == "" {
		add("discoveryAddress", literal(c.DiscoveryAddress))
	}
	if c.CAAddress != "" {
		add("caAddress", literal(c.CAAddress))
		add("caRoots", rootsFile)
		add("caToken", tokenFile)
	}
	if w.flags["serviceCluster"] == "" {
		app := cmp.Or(p.Labels["app.kubernetes.io/name"], p.Labels["app"], strings.TrimRight(p.Name, "-"))
		add("serviceCluster", literal(strings.Trim(app+"."+ns.Name, ".")))
	}
	add("domain", "$(POD_NAMESPACE).svc."+literal(c.ClusterDomain))
	add("trust-domain", literal(c.TrustDomain))
	add("proxyLogLevel", w.logLevel)
	add("proxyComponentLogLevel", literal(w.componentLogLevel))
	add("logLevel", w.agentLogLevel)
	add("statusPort", strconv.Itoa(w.statusPort))
	if values, _ := w.textMap("runtimeValues"); len(values) > 0 {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			pairs = append(pairs, name+"="+values[name])
		}
		add("runtimeValues", literal(strings.Join(pairs, ",")))
	}
	for _, name := range slices.Sorted(maps.Keys(w.flags)) {
		add(name, literal(w.flags[name]))
	}
	return out
}

// initArgs returns the arguments of pod-init.
func (w *annotations) initArgs() []string {
	skip := strconv.Itoa(w.statusPort)
	if w.traffic.excludeInboundPorts != "" {
		skip += "," + w.traffic.excludeInboundPorts
	}
	out := []string{
		"-p", "15001", "-z", "15006", "-u", strconv.FormatInt(w.user, 10), "-g", strconv.FormatInt(w.group, 10),
		"-m", w.traffic.mode, "-i", w.traffic.includeOutboundRanges, "-x", w.traffic.excludeOutboundRanges,
		"-b", w.traffic.includeInboundPorts, "-d", skip,
	}
	for _, further := range []struct{ flag, value string }{
		{"-o", w.traffic.excludeOutboundPorts},
		{"-q", w.traffic.includeOutboundPorts},
		{"-k", w.traffic.interfaces},
		{"-c", w.traffic.excludeInterfaces},
	} {
		if further.value != "" {
			out = append(out, further.flag, further.value)
		}
	}
	return out
}

// resources returns the resources of the annotations, or, if no annotation sets any, those of the Config.
func (w *annotations) resources(c Config) map[string]any {
	out := map[string]any{}
	if w.requests == nil && w.limits == nil {
		text, _ := json.Marshal(c.Resources) // was read from JSON
		_ = json.Unmarshal(text, &out)
		return out
	}
	if len(w.requests) > 0 {
		out["requests"] = object(w.requests)
	}
	if len(w.limits) > 0 {
		out["limits"] = object(w.limits)
	}
	return out
}
