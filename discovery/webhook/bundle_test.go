package webhook

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestBundlePatch(t *testing.T) {
	roots := []byte("roots")
	has := base64.StdEncoding.EncodeToString(roots)
	const ours = `{name: a, clientConfig: {service: {namespace: mesh, name: discovery, path: /inject}%s}}`
	for _, tt := range []struct {
		name, webhooks, patch string
		foreign               []string
	}{
		{"none", `[]`, "", nil},
		{"missing", `[` + fmt.Sprintf(ours, "") + `]`, `[{"op":"test","path":"/webhooks/0/name","value":"a"},{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"cm9vdHM="}]`, nil},
		{"there", `[` + fmt.Sprintf(ours, ", caBundle: "+has) + `]`, "", nil},
		{"another", `[` + fmt.Sprintf(ours, ", caBundle: Zm9v") + `]`, `[{"op":"test","path":"/webhooks/0/name","value":"a"},{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"cm9vdHM="}]`, nil},
		{"a placeholder", `[` + fmt.Sprintf(ours, `, caBundle: "\n"`) + `]`, `[{"op":"test","path":"/webhooks/0/name","value":"a"},{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"cm9vdHM="}]`, nil},
		{
			"of others", `[{name: x, clientConfig: {service: {namespace: other, name: discovery}}}, {name: w, clientConfig: {service: {namespace: mesh, name: istiod}}},
			{name: z, clientConfig: {url: "https://elsewhere/inject"}}, {name: v}, ` + fmt.Sprintf(ours, "") + `]`,
			`[{"op":"test","path":"/webhooks/4/name","value":"a"},{"op":"add","path":"/webhooks/4/clientConfig/caBundle","value":"cm9vdHM="}]`,
			[]string{"x", "w", "z", "v"},
		},
		{"our URL", `[{name: u, clientConfig: {url: "https://10.0.0.1:15017/inject"}}]`, `[{"op":"test","path":"/webhooks/0/name","value":"u"},{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"cm9vdHM="}]`, nil},
		{"garbage", `[7, {clientConfig: {service: 3}}]`, "", []string{"", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o unstructured.Unstructured
			if err := yaml.Unmarshal([]byte("webhooks: "+tt.webhooks), &o.Object); err != nil {
				t.Fatal(err)
			}
			patch, foreign, err := bundlePatch(&o, Service{Namespace: "mesh", Name: "discovery"}, []string{"10.0.0.1"}, roots)
			if err != nil || string(patch) != tt.patch || !slices.Equal(foreign, tt.foreign) {
				t.Errorf("got %s, %q, %v", patch, foreign, err)
			}
		})
	}
}

func TestNamesOfAService(t *testing.T) {
	got := Service{"mesh", "discovery", "corp.example"}.names()
	if want := []string{"discovery.mesh.svc", "discovery.mesh.svc.corp.example"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
