package crd

import (
	"bufio"
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

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	apicel "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// Reference knows the schemas of Istio's kinds. It may be used by several goroutines.
type Reference struct {
	kinds map[string]*compiled // by apiVersion and kind: "networking.istio.io/v1 Sidecar"
}

// compiled makes a kind's validators when they are first asked for: there are many, and each costs 30 ms.
type compiled struct {
	schema *v1.JSONSchemaProps
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
		var d v1.CustomResourceDefinition
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

// reference is made once: it reads a megabyte of definitions.
var reference = sync.OnceValues(New)

// Sound returns what discovery's validation or an API server would refuse in a text of YAML documents, nil where both take it.
func Sound(text []byte) error {
	if _, problems := config.Decode("", text); config.HasErrors(problems) {
		return fmt.Errorf("discovery would not take this: %v", problems)
	}
	server, err := reference()
	if err != nil {
		return err
	}
	documents, err := Documents(text)
	if err != nil {
		return err
	}
	for _, document := range documents {
		if faults, known := server.Judge(document); !known || len(faults) > 0 {
			return fmt.Errorf("an API server would not take this: %q:\n%s", faults, document)
		}
	}
	return nil
}

// validators are what the API server makes of one version of a definition.
type validators struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator // nil where the schema has none
}

func compile(props *v1.JSONSchemaProps) (*validators, error) {
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return &validators{structural, validator, cel.NewValidator(structural, true, apicel.PerCallLimit)}, nil
}

// judge does what the API server does, in its order. Unknown fields, which it would drop, are faults as they are to
// kubectl.
func (v *validators) judge(ctx context.Context, object map[string]any) []string {
	var faults []string
	dropped := pruning.PruneWithOptions(object, v.structural, true,
		schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range dropped {
		faults = append(faults, path+": unknown field")
	}
	defaulting.Default(object, v.structural)
	errs := validation.ValidateCustomResource(nil, object, v.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, object)...)
	if v.rules != nil && len(errs) == 0 { // rules are for values of the right form
		broken, _ := v.rules.Validate(ctx, nil, v.structural, object, nil, apicel.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	for _, err := range errs {
		faults = append(faults, err.Error())
	}
	return faults
}

// decode reads numbers as Kubernetes does: to CEL a port that is a float is none.
func decode(document []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	return object, nil
}

func newReader(data []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(data)) }
