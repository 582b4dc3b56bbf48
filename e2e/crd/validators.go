package crd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	apicel "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

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
