package mcp

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// overMCP is a resource as a control plane sends it.
func overMCP(t *testing.T, name string, spec proto.Message) *anypb.Any {
	t.Helper()
	body, err := anypb.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := anypb.New(&mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: name}, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// furtherKinds have no scenario, since they change no resource of a proxy.
const furtherKinds = `---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: proxy, namespace: edge}
spec: {selector: {matchLabels: {app: edge}}, concurrency: 0, environmentVariables: {A: b}, image: {imageType: debug}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: group, namespace: edge}
spec:
  metadata: {labels: {app: edge}, annotations: {a: b}}
  template: {ports: {http: 8080}, serviceAccount: edge, network: vms, locality: a/b/c, labels: {version: v1}}
  probe: {initialDelaySeconds: 5, timeoutSeconds: 3, httpGet: {path: /health, port: 8080, scheme: HTTP, httpHeaders: [{name: a, value: b}]}}
`

// Each object of the scenarios, which set every field of Istio's networking API, is the same over MCP as from a file.
func TestObjectsAreTheSameOverMCP(t *testing.T) {
	files, err := filepath.Glob("../../xds/testdata/scenario/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	kinds, count := map[string]config.Kind{}, map[string]int{}
	for _, k := range config.Kinds() {
		kinds[k.Name] = k
	}
	texts := map[string][]byte{"further kinds": []byte(furtherKinds)}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range texts {
		objects, _ := config.Decode(file, text)
		for _, o := range objects {
			k, served := kinds[o.Kind]
			if !served {
				continue // settings of the mesh are not asked for
			}
			count[o.Kind]++
			spec := o.Spec.(proto.Message)
			got := readObject("istiod.test:15010", k, overMCP(t, o.Namespace+"/"+o.Name, spec))
			if len(got.group.Faults) > 0 || len(got.group.Objects) != 1 {
				t.Errorf("%s: %s: %d objects, %q", file, o.Key(), len(got.group.Objects), got.group.Faults)
				continue
			}
			if again := got.group.Objects[0]; again.Key() != o.Key() || !proto.Equal(again.Spec.(proto.Message), spec) {
				t.Errorf("%s: %s over MCP is\n%v\nwant\n%v", file, o.Key(), again.Spec, spec)
			}
		}
	}
	for name := range kinds {
		if count[name] == 0 {
			t.Errorf("no scenario has a %s", name)
		}
	}
}

// Protobuf's JSON puts a number of 64 bits in quotes, which no API server accepts. All of it arrives.
func TestNumbersOf64Bits(t *testing.T) {
	for name, balancer := range map[string]*networking.LoadBalancerSettings_ConsistentHashLB{
		"the old field": {MinimumRingSize: 4096},
		"a ring": {HashAlgorithm: &networking.LoadBalancerSettings_ConsistentHashLB_RingHash_{
			RingHash: &networking.LoadBalancerSettings_ConsistentHashLB_RingHash{MinimumRingSize: 2048},
		}},
		"Maglev": {HashAlgorithm: &networking.LoadBalancerSettings_ConsistentHashLB_Maglev{
			Maglev: &networking.LoadBalancerSettings_ConsistentHashLB_MagLev{TableSize: 5003},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			balancer.HashKey = &networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp{UseSourceIp: true}
			policy := &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
				LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: balancer},
			}}
			spec := &networking.DestinationRule{Host: "echo.test", TrafficPolicy: policy, Subsets: []*networking.Subset{
				{Name: "v1", Labels: map[string]string{"version": "v1"}, TrafficPolicy: policy},
			}}
			got := readObject("istiod.test:15010", config.Kinds()[0], overMCP(t, "default/rule", spec))
			if len(got.group.Objects) != 1 || !proto.Equal(got.group.Objects[0].Spec.(proto.Message), spec) {
				t.Errorf("got %v, %q, want %v", got.group.Objects, got.group.Faults, spec)
			}
		})
	}
}
