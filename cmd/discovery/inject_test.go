package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The command injects what the webhook does, into the same Pod of the same mesh: MeshConfig, ProxyConfig objects of the Pod's and of
// the root namespace, and the annotation, in Istio's order.
func TestWebhookAndCommandInjectAlike(t *testing.T) {
	const injection = "../../discovery/plane/testdata/injection"
	var out, said bytes.Buffer
	args := []string{"inject", "-f", filepath.Join(injection, "pod.yaml"), "--meshConfig", filepath.Join(injection, "mesh.yaml"), "--proxyConfig", filepath.Join(injection, "objects")}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("it exits %d: %s", code, said.String())
	}
	if want := "defaultConfig.proxyMetadata.POD_NAME: is set by the injector, ignored"; !strings.Contains(said.String(), want) {
		t.Errorf("the command says %q, want %s", said.String(), want)
	}
	var byCommand, byWebhook map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &byCommand); err != nil {
		t.Fatal(err)
	}
	webhook, err := os.ReadFile("../../discovery/plane/testdata/TestWebhookInjects.golden")
	if err == nil {
		err = json.Unmarshal(webhook, &byWebhook)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(byWebhook, byCommand) {
		t.Errorf("the webhook injects\n%v\nthe command\n%v", byWebhook, byCommand)
	}
	var sidecar map[string]any
	for _, c := range byCommand["spec"].(map[string]any)["initContainers"].([]any) {
		if c := c.(map[string]any); c["name"] == "istio-proxy" {
			sidecar = c
		}
	}
	variables := map[string]any{}
	for _, v := range sidecar["env"].([]any) {
		variables[v.(map[string]any)["name"].(string)] = v.(map[string]any)["value"]
	}
	want := map[string]any{"A": "mesh", "B": "root", "C": "shop", "D": "web", "E": "annotation", "PROXY_CONFIG": `{"concurrency":0}`, "POD_NAME": nil, "OTHER": nil, "ROOT": nil}
	for name, value := range want {
		if variables[name] != value {
			t.Errorf("%s is %v, want %v", name, variables[name], value)
		}
	}
	if _, there := variables["OTHER"]; there {
		t.Error("it has a variable of another namespace")
	}
	arguments := fmt.Sprint(sidecar["args"])
	for _, want := range []string{"--discoveryAddress pilot.root.svc:15010", "--drainDuration 15s", "--statsInclusionPrefixes cluster", "--zipkinAddress zipkin.root:9411"} {
		if !strings.Contains(arguments, want) {
			t.Errorf("the arguments are %s, want %s", arguments, want)
		}
	}
}
