package inject_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

const app = `containers: [{name: app, image: "example/app:1"}]`

// Pods that are not injected and Pods that are refused, each with the reason.
func TestDecisions(t *testing.T) {
	i := injector(t, "")
	shop := inject.Namespace{Name: "shop"}
	in := func(labels map[string]string) inject.Namespace { return inject.Namespace{Name: "shop", Labels: labels} }
	for _, tt := range []struct {
		name, metadata, spec string
		ns                   inject.Namespace
		skipped, fault       string
	}{
		{"plain", "", app, shop, "", ""},
		{"host network", "", "hostNetwork: true, " + app, shop, "hostNetwork", ""},
		{"host network that asks", "labels: {sidecar.istio.io/inject: 'true'}", "hostNetwork: true, " + app, shop, "hostNetwork", ""},
		{"kube-system", "labels: {sidecar.istio.io/inject: 'true'}", app, inject.Namespace{Name: "kube-system"}, "kube-system", ""},
		{"out by label", "labels: {sidecar.istio.io/inject: 'false'}", app, shop, "label sidecar.istio.io/inject is false", ""},
		{"out by annotation", "annotations: {sidecar.istio.io/inject: 'false'}", app, shop, "annotation", ""},
		{"the label counts", "labels: {sidecar.istio.io/inject: 'true'}, annotations: {sidecar.istio.io/inject: 'false'}", app, shop, "", ""},
		{"neither", "labels: {sidecar.istio.io/inject: 'no'}", app, shop, "", `is "no", want true or false`},
		{"our revision", "labels: {istio.io/rev: default}", app, in(map[string]string{}), "", ""},
		{"our revision in a namespace without", "labels: {istio.io/rev: default}", app, in(map[string]string{"istio-injection": "disabled"}), "istio-injection: disabled", ""},
		{"another revision", "labels: {istio.io/rev: canary}", app, shop, "is canary", ""},
		{"a namespace without", "", app, in(map[string]string{"istio-injection": "disabled"}), "istio-injection: disabled", ""},
		{"in a namespace without", "labels: {sidecar.istio.io/inject: 'true'}", app, in(map[string]string{"istio-injection": "disabled"}), "istio-injection: disabled", ""},
		{"a namespace of another revision", "", app, in(map[string]string{"istio.io/rev": "canary"}), "istio.io/rev: canary", ""},
		{"a namespace with both", "", app, in(map[string]string{"istio.io/rev": "canary", "istio-injection": "enabled"}), "", ""},
		{"a mirror", "annotations: {kubernetes.io/config.mirror: x}", app, shop, "static Pod", ""},
		{"Windows", "", "os: {name: windows}, " + app, shop, "Windows", ""},
		{"Windows nodes, as before", "", "nodeSelector: {beta.kubernetes.io/os: windows}, " + app, shop, "Windows", ""},
		{"Windows nodes", "", "nodeSelector: {kubernetes.io/os: windows}, " + app, shop, "Windows", ""},
		{"injected by Istio", "annotations: {sidecar.istio.io/status: '{}'}", `containers: [{name: app}, {name: istio-proxy, image: "istio/proxyv2:1"}]`, shop, "already", ""},
		{"a status without a sidecar", "annotations: {sidecar.istio.io/status: '{}'}", app, shop, "", ""},
		{"its template, twice", "annotations: {inject.istio.io/templates: 'sidecar, sidecar'}", app, shop, "", ""},
		{"another template", "annotations: {inject.istio.io/templates: 'sidecar,custom'}", app, shop, "", `is "custom", want one of sidecar`},
		{"no containers", "", "containers: []", shop, "", "spec.containers: is empty"},
		{"nothing", "", "", shop, "", "spec.containers: is empty"},
		{"containers that are none", "", "containers: [7, x]", shop, "", "is empty"},
		{"two of one name", "", "containers: [{name: a}, {name: a}]", shop, "", `two of it`},
		{"an init container of that name", "", "initContainers: [{name: app}], " + app, shop, "", "two of it"},
		{"our name", "", "containers: [{name: app}, {name: istio-proxy, image: 'example/mine:1'}]", shop, "", "istio-proxy of its own"},
		{"our name, to start with", "", "initContainers: [{name: istio-proxy, image: x}], " + app, shop, "", "istio-proxy of its own"},
		{"our other name", "", "initContainers: [{name: istio-init, image: x}], " + app, shop, "", "istio-init of its own"},
		{"only the sidecar", "", "containers: [{name: istio-proxy, image: auto}]", shop, "", "there is only istio-proxy"},
		{"our volume", "", "volumes: [{name: istio-envoy, emptyDir: {}}], " + app, shop, "", "istio-envoy already"},
		{"a port that is none", "annotations: {traffic.sidecar.istio.io/excludeInboundPorts: '80,x'}", app, shop, "", `annotation traffic.sidecar.istio.io/excludeInboundPorts: "x" is no port`},
		{"all ports but none", "annotations: {traffic.sidecar.istio.io/excludeInboundPorts: '*'}", app, shop, "", "includeOutboundIPRanges alone; empty, they redirect nothing"},
		{"a range that is none", "annotations: {traffic.sidecar.istio.io/includeOutboundIPRanges: '10.0.0.0/33'}", app, shop, "", "is no range"},
		{"a shell", "annotations: {traffic.sidecar.istio.io/kubevirtInterfaces: '$(reboot)'}", app, shop, "", "no name of a network interface"},
		{"YAML for an image", `annotations: {sidecar.istio.io/proxyImage: "x\n    securityContext: {privileged: true}"}`, app, shop, "", "want the name of an image"},
		{"more than the limit", "annotations: {sidecar.istio.io/proxyCPU: '2', sidecar.istio.io/proxyCPULimit: '1'}", app, shop, "", "2 are requested, and the limit is 1"},
		{"a volume with another's field", `annotations: {sidecar.istio.io/userVolume: '{"a": {"hostPathe": {}}}'}`, app, shop, "", `unknown field "hostPathe"`},
		{"a volume of ours", `annotations: {sidecar.istio.io/userVolume: '{"istio-envoy": {"emptyDir": {}}}'}`, app, shop, "", "istio-envoy already"},
		{"an identity", "annotations: {proxy.istio.io/config: 'proxyMetadata: {POD_NAME: other}'}", app, shop, "", "POD_NAME: is set by the injector"},
		{"a variable that is none", "annotations: {proxy.istio.io/config: 'proxyMetadata: {\"A=B\": x}'}", app, shop, "", "no name of a variable"},
		{"a config that is none", "annotations: {proxy.istio.io/config: '[]'}", app, shop, "", "is no ProxyConfig"},
		{"an address that is none", "annotations: {proxy.istio.io/config: 'discoveryAddress: nowhere'}", app, shop, "", "discoveryAddress: is \"nowhere\", want host:port"},
		{"an object for a flag", "annotations: {proxy.istio.io/config: 'drainDuration: {seconds: 4}'}", app, shop, "", "want one value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			given := parse(t, "metadata: {name: p, "+tt.metadata+"}\nspec: {"+tt.spec+"}")
			before, _ := json.Marshal(given)
			r, err := i.Pod(tt.ns, given, nil)
			if after, _ := json.Marshal(given); !bytes.Equal(before, after) {
				t.Errorf("the argument is changed: %s", after)
			}
			switch {
			case tt.fault != "":
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("got %v, want %s", err, tt.fault)
				}
			case err != nil:
				t.Error(err)
			case (tt.skipped == "") != (r.Skipped == "") || !strings.Contains(r.Skipped, tt.skipped):
				t.Errorf("it is skipped as %q, want %q", r.Skipped, tt.skipped)
			case r.Skipped != "" && !reflect.DeepEqual(r.Pod, given):
				t.Errorf("it is skipped, and changed")
			}
		})
	}
}

// A warning names settings without effect.
func TestWarnings(t *testing.T) {
	i := injector(t, "")
	for _, tt := range []struct{ metadata, spec, want string }{
		{"annotations: {traffic.sidecar.istio.io/excludeInboundPort: '80'}", app, "excludeInboundPort: is not known here, and has no effect; did you mean traffic.sidecar.istio.io/excludeInboundPorts?"},
		{"annotations: {sidecar.istio.io/enableCoreDump: 'true'}", app, "annotation sidecar.istio.io/enableCoreDump: has no effect: the agent keeps"},
		{"annotations: {proxy.istio.io/config: 'concurency: 2'}", app, "proxy.istio.io/config: concurency: is not known here, and has no effect; did you mean concurrency?"},
		{"annotations: {proxy.istio.io/config: 'tracing: {zipkin: {adress: \"a:1\"}}'}", app, "tracing.zipkin.adress: is not known here"},
		{"", "securityContext: {runAsUser: 1337}, " + app, "container app: runs as 1337"},
		{"", "containers: [{name: app, livenessProbe: {httpGet: {port: web}}}]", `livenessProbe is not led to the agent, and may fail: the container has no port "web"`},
		{"", "containers: [{name: app, livenessProbe: {httpGet: {port: 80, host: example.org}}}]", "it asks the host example.org"},
		{"", "containers: [{name: app, livenessProbe: {tcpSocket: {port: 80}, timeoutSeconds: 900}}]", "timeoutSeconds is 900"},
		{"", "containers: [{name: app, livenessProbe: {httpGet: {port: 80, path: 'http://x/'}}}]", `its path is "http://x/"`},
		{"annotations: {sidecar.istio.io/nativeSidecar: 'false'}", "restartPolicy: Never, " + app, "keeps the Pod from completing"},
		{"annotations: {sidecar.istio.io/nativeSidecar: 'false'}", "initContainers: [{name: own, restartPolicy: Always, startupProbe: {tcpSocket: {port: 1}}}], " + app, "container own: its probes are not led to the agent"},
		{"", "containers: [{name: app, ports: [{containerPort: 15020}]}]", "container app: its port 15020 is the sidecar's, for status"},
		{"annotations: {proxy.istio.io/config: 'terminationDrainDuration: 60s'}", app, "terminationDrainDuration: is 1m0s, and the Pod is killed after its terminationGracePeriodSeconds, 30"},
		{"annotations: {sidecar.istio.io/proxyImageType: debug}", app, `the image type "debug" has no image under imageTypes`},
		{"annotations: {prometheus.io/scrape: 'true', prometheus.io/port: x}", app, `the port "x" or the path`},
	} {
		r, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {name: p, "+tt.metadata+"}\nspec: {"+tt.spec+"}"), nil)
		if err != nil || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, tt.want) }) {
			t.Errorf("%s %s: the warnings are %q, want %s (%v)", tt.metadata, tt.spec, r.Warnings, tt.want, err)
		}
	}
}

// The order of containers holds the program back.
func TestOrder(t *testing.T) {
	for _, tt := range []struct{ config, annotations, initial, containers string }{
		{"nativeSidecar: true", "", "istio-init istio-proxy first", "a b"},
		{"nativeSidecar: true", "sidecar.istio.io/nativeSidecar: 'false'", "first istio-init", "a b istio-proxy"},
		{"nativeSidecar: false\nholdApplicationUntilProxyStarts: true", "", "first istio-init", "istio-proxy a b"},
		{"nativeSidecar: true\nholdApplicationUntilProxyStarts: true\ninterceptionMode: NONE", "", "istio-proxy first", "a b"},
	} {
		c, err := inject.ReadConfig(tt.config)
		if err != nil {
			t.Fatal(err)
		}
		i, err := inject.New(c, inject.DefaultTemplate)
		if err != nil {
			t.Fatal(err)
		}
		r, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {annotations: {"+tt.annotations+"}}\nspec: {initContainers: [{name: first}], containers: [{name: a}, {name: b}]}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		spec := r.Pod["spec"].(map[string]any)
		for key, want := range map[string]string{"initContainers": tt.initial, "containers": tt.containers} {
			var got []string
			for _, c := range spec[key].([]any) {
				got = append(got, c.(map[string]any)["name"].(string))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s, %s: the %s are %q, want %s", tt.config, tt.annotations, key, got, want)
			}
		}
	}
}

// Fields that this program does not know stay, in the object and in its patch.
func TestUnknownFieldsStay(t *testing.T) {
	given := parse(t, `{metadata: {name: p, younger: {a: 1}}, spec: {younger: [1], containers: [{name: app, younger: {b: [x]}, livenessProbe: {tcpSocket: {port: 80}, younger: 2}}]}, status: {}}`)
	r, err := injector(t, "").Pod(inject.Namespace{Name: "shop"}, given, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	if text := fmt.Sprint(r.Pod["metadata"].(map[string]any)["younger"], r.Pod["spec"].(map[string]any)["younger"], c["younger"], c["livenessProbe"].(map[string]any)["younger"]); text != "map[a:1] [1] map[b:[x]] 2" {
		t.Errorf("they are %s", text)
	}
	patch, err := inject.Patch(given, r.Pod)
	if err != nil || strings.Contains(string(patch), "remove") {
		t.Errorf("the patch removes something: %v %s", err, patch)
	}
}

// Texts of a Pod do not change the structure: with any text in an annotation or a label, there are the same containers
// with the same rights.
func TestHostileTexts(t *testing.T) {
	i := injector(t, "")
	shape := func(o map[string]any) string {
		spec := o["spec"].(map[string]any)
		out := fmt.Sprint(len(spec))
		for _, key := range []string{"initContainers", "containers", "volumes"} {
			for _, item := range spec[key].([]any) {
				c := item.(map[string]any)
				out += fmt.Sprint(" ", c["name"], len(c), c["securityContext"])
			}
		}
		return out
	}
	plain, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {name: p}\nspec: {"+app+"}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	const evil = "x\"\n    securityContext: {privileged: true}\n  hostNetwork: true\n#{{.Image}} $(POD_NAME) \u0085 - y"
	names := []string{
		"sidecar.istio.io/componentLogLevel", "sidecar.istio.io/proxyImage", "sidecar.istio.io/logLevel", "sidecar.istio.io/statsInclusionPrefixes", "sidecar.istio.io/bootstrapOverride",
		"sidecar.istio.io/userVolume", "proxy.istio.io/config", "traffic.sidecar.istio.io/excludeInterfaces", "status.sidecar.istio.io/port", "prometheus.io/path", "topology.istio.io/network", "app",
	}
	for _, name := range names {
		for _, where := range []string{"annotations", "labels"} {
			given := map[string]any{
				"metadata": map[string]any{"name": evil, where: map[string]any{name: evil, "prometheus.io/scrape": "true"}},
				"spec":     parse(t, app),
			}
			r, err := i.Pod(inject.Namespace{Name: evil}, given, nil)
			if err == nil && shape(r.Pod) != shape(plain.Pod) {
				t.Errorf("%s %s makes\n%s, want\n%s", where, name, shape(r.Pod), shape(plain.Pod))
			}
		}
	}
}
