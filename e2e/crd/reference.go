package crd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Reference knows the schemas of Istio's kinds. It may be used by several goroutines.
type Reference struct {
	kinds map[string]*compiled // by apiVersion and kind: "networking.istio.io/v1 Sidecar"
}

// compiled makes a kind's validators when they are first asked for: there are many, and each costs 30 ms.
type compiled struct {
	schema *apiextensions.JSONSchemaProps
	once   sync.Once
	made   *validators
	err    error
}

// New reads the definitions that the project's version of istio.io/api ships.
func New() (*Reference, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	if err != nil {
		return nil, fmt.Errorf("find istio.io/api: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "kubernetes",
		"customresourcedefinitions.gen.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read Istio's definitions: %w", err)
	}
	r := &Reference{kinds: map[string]*compiled{}}
	documents, err := Documents(data)
	if err != nil {
		return nil, fmt.Errorf("read Istio's definitions: %w", err)
	}
	for _, document := range documents {
		var d apiextensions.CustomResourceDefinition
		if err := yaml.Unmarshal(document, &d); err != nil {
			return nil, fmt.Errorf("decode a definition: %w", err)
		}
		for _, v := range d.Spec.Versions {
			r.kinds[d.Spec.Group+"/"+v.Name+" "+d.Spec.Names.Kind] = &compiled{schema: v.Schema.OpenAPIV3Schema}
		}
	}
	return r, nil
}

// Documents splits a stream of YAML. Documents that hold nothing are left out.
func Documents(data []byte) ([][]byte, error) {
	var out [][]byte
	for reader := utilyaml.NewYAMLReader(newReader(data)); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if yaml.Unmarshal(document, &content) == nil && content == nil {
			continue
		}
		out = append(out, bytes.Clone(document))
	}
}

// Judge returns what the API server has against an object, nothing where it would be stored. Known is false where the
// definitions have no such kind.
func (r *Reference) Judge(document []byte) (faults []string, known bool) {
	object, err := decode(document)
	if err != nil {
		return []string{err.Error()}, true
	}
	kind, ok := r.kinds[fmt.Sprint(object["apiVersion"], " ", object["kind"])]
	if !ok {
		return nil, false
	}
	kind.once.Do(func() { kind.made, kind.err = compile(kind.schema) })
	if kind.err != nil {
		return []string{kind.err.Error()}, true
	}
	return kind.made.judge(context.Background(), object), true
}
