package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template/parse"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/internal/template"
)

// encoder is the name of the function that is appended to each action of a template.
const encoder = "asOneValue"

// parseTemplate parses a template and changes it so that every {{action}} writes one JSON value, which is also one YAML
// value.
func parseTemplate(text string) (*template.Template, error) {
	parsed, err := template.Parse("template", text, template.Functions{encoder: asOneValue})
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	for t := range parsed.Trees() {
		encode(t, t.Root)
	}
	return parsed, nil
}

// asOneValue writes a value as JSON without characters that end a line in YAML, such as U+0085.
func asOneValue(args ...any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%d values, want one", len(args))
	}
	text, err := json.Marshal(args[0])
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r >= 0x7f && r <= 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String(), nil
}

// encode appends the encoder to each action below a node that writes a value.
func encode(t *parse.Tree, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			encode(t, child)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 { // an action with a declaration sets a variable
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos}
			call.Args = []parse.Node{parse.NewIdentifier(encoder).SetPos(n.Pos).SetTree(t)}
			n.Pipe.Cmds = append(n.Pipe.Cmds, call)
		}
	case *parse.IfNode:
		encode(t, n.List)
		encode(t, n.ElseList)
	case *parse.RangeNode:
		encode(t, n.List)
		encode(t, n.ElseList)
	case *parse.WithNode:
		encode(t, n.List)
		encode(t, n.ElseList)
	}
}

// render runs the template and returns its part of a Pod.
func render(t *template.Template, facts Facts) (pod, error) {
	var out bytes.Buffer
	if err := t.Execute(&out, facts); err != nil {
		return nil, fmt.Errorf("run template: %w", err)
	}
	text, err := yaml.YAMLToJSONStrict(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the template makes no YAML: %w", err)
	}
	var part pod
	if err := utiljson.Unmarshal(text, &part); err != nil {
		return nil, fmt.Errorf("the template makes no object: %w", err)
	}
	var typed struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec corev1.PodSpec `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &typed); err != nil {
		return nil, fmt.Errorf("the template makes no part of a Pod: %w", err)
	}
	if len(typed.Spec.Containers)+len(typed.Spec.InitContainers) == 0 {
		return nil, fmt.Errorf("the template makes no container")
	}
	return part, nil
}
