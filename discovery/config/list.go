package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unpack replaces Kubernetes' lists, which kubectl prints, by their items. Items must be objects: a list in a list is
// not unpacked.
func unpack(roots []*yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for _, root := range roots {
		if items, ok := listItems(root); ok {
			out = append(out, items...)
		} else {
			out = append(out, root)
		}
	}
	return out
}

// listItems returns the items of a List, or of a list of a kind that is served; false for anything else.
func listItems(root *yaml.Node) ([]*yaml.Node, bool) {
	var apiVersion, kind string
	var items *yaml.Node
	if root.Kind != yaml.MappingNode {
		return nil, false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch value := root.Content[i+1]; root.Content[i].Value {
		case "apiVersion":
			apiVersion = value.Value
		case "kind":
			kind = value.Value
		case "items":
			items = value
		}
	}
	_, served := kindOf(apiVersion, strings.TrimSuffix(kind, "List"))
	served = served || apiVersion != "" && manifestVersion(strings.TrimSuffix(kind, "List")) == apiVersion
	switch {
	case !strings.HasSuffix(kind, "List") || !served && (apiVersion != "v1" || kind != "List"):
		return nil, false
	case items == nil || isNull(items):
		return nil, true
	case items.Kind != yaml.SequenceNode:
		return []*yaml.Node{items}, true // which is reported as not an object
	default:
		return slices.DeleteFunc(slices.Clone(items.Content), isNull), true
	}
}
