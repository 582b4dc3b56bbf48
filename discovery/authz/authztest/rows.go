package authztest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"go.yaml.in/yaml/v3"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Row is some policies of the namespace shop, and requests with what becomes of them.
type Row struct {
	Name     string
	Policies []Written
	Allow    []Request
	Deny     []Request
	Broken   bool // a policy has an error: its closed form counts
}

// Written is a policy as it is written.
type Written struct {
	DryRun bool `json:"dryRun"`
	Root   bool // it is of the root namespace
	Broken bool // it has an error, others of the row need not
	Spec   json.RawMessage
}

// Rows reads the rows of a file.
func Rows(t testing.TB, path string) (rows []Row) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// Read returns a row's policies, as discovery serves them.
func (r Row) Read(t testing.TB) (out []model.Policy) {
	t.Helper()
	for i, w := range r.Policies {
		namespace := "shop"
		if w.Root {
			namespace = "istio-system"
		}
		text := fmt.Sprintf(`{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "p%d", "namespace": %q, "annotations": {"istio.io/dry-run": "%t"}}, "spec": %s}`,
			i, namespace, w.DryRun, w.Spec)
		for _, item := range config.Read([]byte(text)) {
			o := item.Object
			if r.Broken || w.Broken {
				o = item.Closed
			}
			if o == nil {
				t.Fatalf("%s: policy %d is not served: %+v", r.Name, i, item.Problems)
			}
			out = append(out, model.Policy{Namespace: o.Namespace, Name: o.Name, Spec: o.Spec.(*security.AuthorizationPolicy), DryRun: o.DryRun, Closed: o.Closed})
		}
	}
	return out
}
