package inject_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"istio.io/api/annotation"
	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

// sidecarOf returns the injected sidecar as a text of its arguments, variables and image.
func sidecarOf(t *testing.T, p map[string]any) string {
	t.Helper()
	spec := p["spec"].(map[string]any)
	for _, key := range []string{"initContainers", "containers"} {
		list, _ := spec[key].([]any)
		for _, item := range list {
			c := item.(map[string]any)
			if c["name"] != "istio-proxy" {
				continue
			}
			out := fmt.Sprint("image ", c["image"], "\nargs ", c["args"], "\n")
			for _, v := range c["env"].([]any) {
				out += fmt.Sprintf("%v=%v\n", v.(map[string]any)["name"], v.(map[string]any)["value"])
			}
			return out
		}
	}
	t.Fatalf("there is no sidecar in %v", p)
	return ""
}

// Of the Config, MeshConfig, ProxyConfig objects, the annotation and the objects that select the Pod, each has priority
// over those before it.
func TestLayers(t *testing.T) {
	const config = "imageTypes: {debug: 'example/proxy:debug'}\nproxyConfig: {concurrency: 1, drainDuration: 11s, proxyMetadata: {A: config, B: config}, proxyStatsMatcher: {inclusionPrefixes: [a]}}"
	low := `{concurrency: 2, drainDuration: 12s, interceptionMode: NONE, statusPort: 15021, proxyMetadata: {B: mesh, C: mesh},
		proxyStatsMatcher: {inclusionPrefixes: [b]}, tracing: {zipkin: {address: 'old:1'}, sampling: 50}, connectionSettings: {profile: EDGE}, image: {imageType: debug}}`
	for _, tt := range []struct {
		name, annotations, high string
		want, not               []string
	}{
		{"MeshConfig", "", "{}", []string{
			"image example/proxy:debug\n", "--drainDuration 12s", "--statusPort 15021", "--statsInclusionPrefixes a,b", "--zipkinAddress old:1",
			`PROXY_CONFIG={"concurrency":2}`, "A=config\n", "B=mesh\n", "C=mesh\n", "ISTIO_META_INTERCEPTION_MODE=NONE\n",
		}, nil},
		{
			"the annotation", `proxy.istio.io/config: '{concurrency: 3, interceptionMode: TPROXY, proxyMetadata: {C: annotation}, tracing: {zipkin: {address: "new:1"}}}'`, "{}",
			[]string{`PROXY_CONFIG={"concurrency":3}`, "C=annotation\n", "B=mesh\n", "--zipkinAddress new:1", "INTERCEPTION_MODE=TPROXY\n", "--drainDuration 12s"},
			[]string{"old:1"},
		},
		{
			"an object that selects it", `proxy.istio.io/config: '{concurrency: 3, proxyMetadata: {C: annotation}}'`, "{concurrency: 0, proxyMetadata: {C: selected}, image: {imageType: default}}",
			[]string{`PROXY_CONFIG={"concurrency":0}`, "C=selected\n", "B=mesh\n", "image pilotlight/proxy\n"},
			nil,
		},
		{
			"annotations of their own", `sidecar.istio.io/interceptionMode: REDIRECT, status.sidecar.istio.io/port: '15022', sidecar.istio.io/statsInclusionPrefixes: c, sidecar.istio.io/discoveryAddress: 'own:1',
			proxy.istio.io/config: '{discoveryAddress: "other:1"}', sidecar.istio.io/proxyImage: 'example/own:1'`, "{}",
			[]string{"INTERCEPTION_MODE=REDIRECT\n", "--statusPort 15022", "--statsInclusionPrefixes c", "--discoveryAddress own:1", "image example/own:1\n"},
			[]string{"a,b", "other:1"},
		},
		{"a type of image", `sidecar.istio.io/proxyImageType: default`, "{}", []string{"image pilotlight/proxy\n"}, nil},
		{"a long drain", `proxy.istio.io/config: '{drainDuration: 90s}'`, "{}", []string{"--drainDuration 90s", "--parentShutdownDuration 1m45s"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := injector(t, config)
			layers := func(namespace string, labels map[string]string) ([]inject.Layer, error) {
				if namespace != "shop" || labels["app"] != "web" {
					t.Errorf("it asks for %s, %v", namespace, labels)
				}
				return []inject.Layer{{From: "mesh", Config: parse(t, low)}, {From: "object", Over: true, Config: parse(t, tt.high)}}, nil
			}
			r, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {name: p, labels: {app: web}, annotations: {"+tt.annotations+"}}\nspec: {"+app+"}"), layers)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Warnings) > 0 {
				t.Errorf("the warnings are %q: what MeshConfig sets is said there", r.Warnings)
			}
			got := strings.NewReplacer("[", " ", "]", " ").Replace(sidecarOf(t, r.Pod))
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("it does not have %q:\n%s", want, got)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(got, not) {
					t.Errorf("it has %q:\n%s", not, got)
				}
			}
		})
	}
}

// A fault names the layer that has it. Layers that are not known stop an injection, but not a Pod that is left out.
func TestLayerFaults(t *testing.T) {
	i := injector(t, "")
	put := func(annotations string, layers inject.Layers) (inject.Result, error) {
		return i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {name: p, annotations: {"+annotations+"}}\nspec: {"+app+"}"), layers)
	}
	for layer, want := range map[string]string{
		"{discoveryAddress: nowhere}":                                        `MeshConfig defaultConfig: discoveryAddress: is "nowhere"`,
		"{proxyMetadata: {POD_NAME: x}}":                                     "MeshConfig defaultConfig: proxyMetadata: POD_NAME: is set by the injector",
		"{proxyMetadata: {LD_AUDIT: x}}":                                     "LD_AUDIT: is set by the injector",
		"{proxyMetadata: {A: [{}]}}":                                         "MeshConfig defaultConfig: proxyMetadata: A: want a text",
		"{proxyMetadata: x}":                                                 "MeshConfig defaultConfig: proxyMetadata: want an object",
		"{drainDuration: 500ms}":                                             "drainDuration: is \"500ms\", want whole seconds",
		"{drainDuration: 50s, parentShutdownDuration: 50s}":                  "parentShutdownDuration: is 50s, want more than drainDuration",
		"{statusPort: 15001}":                                                "statusPort: is 15001, the port of Envoy's outbound listener",
		"{statusPort: 15020, proxyAdminPort: 15020}":                         "proxyAdminPort: is 15020, the port of statusPort",
		"{proxyMetadata: {A: '" + strings.Repeat("x", 140_000) + "'}}":       "A: has 140000 bytes",
		"{tracing: {zipkin: {address: {}}}, proxyMetadata: {A: 1, '1B': x}}": `"1B": is no name of a variable`,
	} {
		_, err := put("", func(string, map[string]string) ([]inject.Layer, error) {
			return []inject.Layer{{From: "MeshConfig defaultConfig", Config: parse(t, layer)}}, nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %s", layer, err, want)
		}
	}
	unknown := errors.New("unknown")
	none := func(string, map[string]string) ([]inject.Layer, error) { return nil, unknown }
	if _, err := put("", none); !errors.Is(err, unknown) {
		t.Errorf("without layers: %v", err)
	}
	if r, err := put("sidecar.istio.io/inject: 'false'", none); err != nil || r.Skipped == "" {
		t.Errorf("a Pod that is left out: %q, %v", r.Skipped, err)
	}
}

// The Config's own ProxyConfig is judged once, when it is read.
func TestConfigDoubts(t *testing.T) {
	i := injector(t, "proxyConfig: {concurency: 2, statNameLength: 3, concurrency: 2}")
	want := []string{"config proxyConfig: concurency: is not known here, and has no effect; did you mean concurrency?", "config proxyConfig: statNameLength: has no effect here"}
	if got := i.Doubts(); !slices.Equal(got, want) {
		t.Errorf("the doubts are %q, want %q", got, want)
	}
	c, err := inject.ReadConfig("proxyConfig: {drainDuration: 1ms}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inject.New(c, inject.DefaultTemplate); err == nil || !strings.Contains(err.Error(), "config proxyConfig: drainDuration") {
		t.Errorf("got %v", err)
	}
}

// Each field of Istio's ProxyConfig has an effect or is known to have none: a user's correct spelling is never called unknown.
func TestEveryFieldOfProxyConfigIsKnown(t *testing.T) {
	known := inject.Names()
	var missing []string
	var walk func(m protoreflect.MessageDescriptor, at string)
	walk = func(m protoreflect.MessageDescriptor, at string) {
		for n := range m.Fields().Len() {
			f := m.Fields().Get(n)
			path := at + f.JSONName()
			deeper := slices.ContainsFunc(known, func(name string) bool { return strings.HasPrefix(name, path+".") })
			switch {
			case slices.Contains(known, path):
			case deeper && f.Message() != nil:
				walk(f.Message(), path+".")
			default:
				missing = append(missing, path)
			}
		}
	}
	walk((&meshconfig.ProxyConfig{}).ProtoReflect().Descriptor(), "")
	if len(missing) > 0 {
		t.Errorf("these are not known: %q", missing)
	}
}

// Each annotation and label of Istio's for Pods has an effect here, or a warning says that it has none.
func TestEveryAnnotationOfIstioIsKnown(t *testing.T) {
	i := injector(t, "")
	silent := map[string]string{ // that have neither, and why
		"sidecar.istio.io/status":          "the injector writes it",
		"istio.io/rev":                     "Istio's injector writes the annotation; the label is read",
		"galley.istio.io/analyze-suppress": "read by istioctl alone",
		"security.istio.io/tlsMode":        "clients read it: discovery",
	}
	plain := func(metadata string) (string, []string) {
		r, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {name: p, "+metadata+"}\nspec: {containers: [{name: app, ports: [{containerPort: 80}], livenessProbe: {tcpSocket: {port: 80}}}]}"), nil)
		if err != nil {
			return err.Error(), nil // a value is checked
		}
		annotations, _ := r.Pod["metadata"].(map[string]any)["annotations"].(map[string]any)
		return fmt.Sprint(r.Pod["spec"], annotations["prometheus.io/port"], r.Skipped), r.Warnings
	}
	before, _ := plain("")
	tried := 0
	judge := func(where, name string) {
		tried++
		if strings.HasPrefix(name, "gateway.istio.io/") || silent[name] != "" {
			return // of Gateways, whatever it says of other kinds
		}
		for _, value := range []string{"false", "x", "7", `{"v": {"emptyDir": {}}}`} {
			after, warnings := plain(fmt.Sprintf("%s: {%q: %q}", where, name, value))
			unknown := slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "is not known here") })
			if unknown {
				t.Errorf("%s %s: %q", where, name, warnings)
			}
			if after != before || len(warnings) > 0 {
				return
			}
		}
		t.Errorf("%s %s: it has no effect, and there is no warning", where, name)
	}
	for _, a := range annotation.AllResourceAnnotations() {
		if slices.ContainsFunc(a.Resources, func(r annotation.ResourceTypes) bool { return r == annotation.Pod || r == annotation.Any }) {
			judge("annotations", a.Name)
		}
	}
	for _, l := range label.AllResourceLabels() {
		if slices.Contains(l.Resources, label.Pod) {
			judge("labels", l.Name)
		}
	}
	if tried < 50 {
		t.Errorf("%d names were tried", tried)
	}
}
