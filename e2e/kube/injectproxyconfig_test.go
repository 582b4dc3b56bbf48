//go:build kube

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// MeshConfig's defaultConfig and ProxyConfig objects of the API server are in the Pods that are created through the webhook,
// `discovery inject` makes the same of them, and the real agent runs with them. An object of another namespace is not in them.
func TestInjectedProxyConfig(t *testing.T) { lab.InNetworkNamespace(t, injectedProxyConfig) }

const proxyConfigs = `
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: all, namespace: root}
spec: {environmentVariables: {ISTIO_META_FROM: root, ISTIO_META_ROOT: root}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, concurrency: 1, environmentVariables: {ISTIO_META_FROM: shop}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: all, namespace: elsewhere}
spec: {concurrency: 2, environmentVariables: {ISTIO_META_FROM: elsewhere, ISTIO_META_ELSEWHERE: elsewhere}}`

func injectedProxyConfig(t *testing.T) {
	c := startCluster(t)
	hand := c.hand()
	hand.apply(istioDefinitions(t) + "\n---\n" + rights + "\n---\n" + keeperRights + "\n---\n" + injectRights + "\n---\n" + namespaceOf("root"))
	hand.apply(proxyConfigs)
	address := "127.0.0.1:" + port(t)
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	grpc := "127.0.0.1:" + port(t)
	discovery, err := lab.Start(lab.Spec{Name: "discovery", Dir: l.Dir, Argv: []string{ // it is not ready before it knows MeshConfig
		filepath.Join(l.Bin, "discovery"), "serve", "--configDir", files, "--grpcAddr", grpc, "--httpAddr", "127.0.0.1:" + port(t), "--monitoringAddr", "127.0.0.1:" + port(t),
		"--kubeconfig", c.kubeconfig("discovery"), "--kubeContext", "test", "--webhookAddr", address,
		"--mutatingWebhookConfiguration", "ours", "--webhookService", "default/discovery", "--webhookSecret", "certificate", "--webhookHosts", "127.0.0.1",
		"--kubernetesConfig", "--meshConfigMap", "default/mesh",
	}})
	check(t, err)
	t.Cleanup(func() {
		if discovery.Stop(stopLimit); t.Failed() {
			t.Logf("discovery:\n%s", tail(discovery.Log()))
		}
	})
	mesh := func(drain string) string {
		return fmt.Sprintf("rootNamespace: root\ndefaultConfig: {discoveryAddress: %q, drainDuration: %s, concurrency: 2, meshId: tested, statNameLength: 200}\n", grpc, drain)
	}
	configMap := func(drain string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mesh, namespace: default}\ndata: {mesh: %q}", mesh(drain))
	}
	pod := strings.Replace(podOf("shop", "labels: {app: web}", appSpec), "name: p,", "name: web,", 1)
	create := func(dry ...string) (*unstructured.Unstructured, error) {
		o := hand.parse(pod)
		return hand.resource(o).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: "Strict", DryRun: dry})
	}
	hand.apply(injectWebhook(t, address))

	// Until it is known what MeshConfig says, no Pod begins.
	check(t, lab.Eventually(30*time.Second, func() error {
		if _, err := create("All"); err == nil || !strings.Contains(err.Error(), "no answer") {
			return fmt.Errorf("without MeshConfig: %v", err)
		}
		return nil
	}))
	eventually := func(drain string) {
		t.Helper()
		hand.apply(configMap(drain))
		check(t, lab.Eventually(time.Minute, func() error {
			o, err := create("All")
			if err != nil {
				return err
			}
			if text := fmt.Sprint(o.Object["spec"]); !strings.Contains(text, "--drainDuration "+drain) || !strings.Contains(text, "ISTIO_META_FROM") {
				return fmt.Errorf("the Pod is %s", text)
			}
			return nil
		}))
	}
	eventually("12s")
	const unsupported = "MeshConfig.defaultConfig.statNameLength is not supported"
	check(t, discovery.AwaitLog(unsupported))
	if n := strings.Count(discovery.Log(), unsupported); n != 1 {
		t.Errorf("the log says %d times what has no effect, want once", n)
	}
	created, err := create()
	check(t, err)

	// The command makes the same of the same texts.
	for name, text := range map[string]string{"mesh.yaml": mesh("12s"), "objects.yaml": proxyConfigs, "pod.yaml": pod} {
		check(t, os.WriteFile(filepath.Join(l.Dir, name), []byte(text), 0o600))
	}
	command := exec.CommandContext(t.Context(), filepath.Join(l.Bin, "discovery"), "inject", "-f", "pod.yaml", "--meshConfig", "mesh.yaml", "--proxyConfig", "objects.yaml")
	command.Dir = l.Dir
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	printed := &unstructured.Unstructured{}
	check(t, yaml.Unmarshal(out.Bytes(), &printed.Object))
	if a, b := startOf(created), startOf(printed); !slices.Equal(a, b) {
		t.Errorf("the webhook's Pod starts with\n%q, the command's with\n%q", a, b)
	}

	// The agent and its Envoy have it.
	_, work := startSidecar(t, l, *created)
	info, err := lab.Get("http://127.0.0.1:15000/server_info")
	check(t, err)
	var server struct {
		Options struct {
			Concurrency int    `json:"concurrency"`
			Drain       string `json:"drain_time"`
		} `json:"command_line_options"`
	}
	check(t, json.Unmarshal([]byte(info), &server))
	if server.Options.Concurrency != 1 || server.Options.Drain != "12s" {
		t.Errorf("Envoy runs with %+v, want the object's concurrency and MeshConfig's drainDuration", server.Options)
	}
	bootstraps, err := filepath.Glob(filepath.Join(work, "envoy-rev*.json"))
	if err != nil || len(bootstraps) != 1 {
		t.Fatalf("the bootstraps are %q, %v", bootstraps, err)
	}
	rendered, err := os.ReadFile(bootstraps[0])
	check(t, err)
	text := strings.ReplaceAll(string(rendered), `": `, `":`)
	for _, want := range []string{`"FROM":"shop"`, `"ROOT":"root"`, `"MESH_ID":"tested"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the bootstrap does not have %s", want)
		}
	}
	if strings.Contains(text, "ELSEWHERE") {
		t.Error("the bootstrap has what another namespace says")
	}

	// Pods that are created after a change have it.
	pod = strings.Replace(pod, "name: web,", "name: later,", 1)
	eventually("13s")
}

// startOf returns the arguments and the plain variables that the sidecar of a Pod starts with.
func startOf(o *unstructured.Unstructured) (out []string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "initContainers")
	for _, c := range list {
		c := c.(map[string]any)
		if c["name"] != "istio-proxy" {
			continue
		}
		for _, a := range c["args"].([]any) {
			out = append(out, a.(string))
		}
		for _, v := range c["env"].([]any) {
			out = append(out, fmt.Sprint(v.(map[string]any)["name"], "=", v.(map[string]any)["value"]))
		}
	}
	return out
}
