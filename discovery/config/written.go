package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Written is one object of any kind as it was written, for callers that pass it on.
type Written struct {
	Item
	APIVersion, Kind string
	Namespace, Name  string
	Revision         string // changes with the object; "" if its place has no revision
	JSON             []byte // the whole object, with its keys in their order; nil if it cannot be read
}

// Title returns the name of the object in the form of problems: "VirtualService shop/reviews".
func (w Written) Title() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// ErrNotThere reports that a place has no such object.
var ErrNotThere = errors.New("is not there")

// ReadWritten reads the objects of a document as Read does, and returns them as written. Objects without a namespace
// get the given one.
func ReadWritten(data []byte, namespace string) []Written {
	var r Reader
	var out []Written
	if len(data) > maxDocument {
		for _, item := range r.Read(data) {
			out = append(out, Written{Item: item})
		}
		return out
	}
	roots, fault := r.nodes.documents(data)
	for _, root := range unpack(roots) {
		putInto(root, namespace)
		out = append(out, writtenOf(root))
	}
	if fault != nil {
		out = append(out, Written{Item: Item{Line: fault.Line, Problems: []Problem{fault.shown()}}})
	}
	return out
}

// putInto sets the namespace of an object that has none.
func putInto(root *yaml.Node, namespace string) {
	metadata := valueOf(root, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return
	}
	scalar := func(text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: text, Line: metadata.Line}
	}
	switch has := valueOf(metadata, "namespace"); {
	case has == nil:
		metadata.Content = append(metadata.Content, scalar("namespace"), scalar(namespace))
	case isNull(has):
		*has = *scalar(namespace)
	}
}

// valueOf returns the value of a key in a mapping, nil if there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func writtenOf(root *yaml.Node) Written {
	w := Written{Item: decodeObject(never, root).shown()}
	r := newReader()
	var text bytes.Buffer
	r.json(&text, root, false, 0)
	if r.fault != nil {
		return w // the Item is refused too
	}
	var head struct {
		APIVersion string
		Kind       string
		Metadata   struct{ Namespace, Name string }
	}
	if json.Unmarshal(text.Bytes(), &head) == nil {
		w.APIVersion, w.Kind, w.Namespace, w.Name, w.JSON = head.APIVersion, head.Kind, head.Metadata.Namespace, head.Metadata.Name, text.Bytes()
	}
	return w
}

// YAML writes an object that was read as JSON, a line for each field, in the same order.
func YAML(object []byte) ([]byte, error) {
	var node yaml.Node
	object = bytes.ReplaceAll(object, []byte("\u0085"), []byte(`\u0085`)) // a line break in YAML, a character in JSON
	if err := yaml.Unmarshal(object, &node); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	block(&node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out.Bytes(), nil
}

// block removes the style of JSON. A text that some YAML readers would read as another type keeps its quotes.
func block(n *yaml.Node) {
	boolean := []string{"y", "n", "yes", "no", "on", "off"} // for readers of YAML 1.1
	text := n.Kind == yaml.ScalarNode && n.Style&quoted != 0
	plain := yaml.Node{Kind: yaml.ScalarNode, Value: n.Value}
	if !text || scalar(&plain) == quote(n.Value) && !slices.Contains(boolean, strings.ToLower(n.Value)) {
		n.Style = 0
	}
	for _, child := range n.Content {
		block(child)
	}
}
