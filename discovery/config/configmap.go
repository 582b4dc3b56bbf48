package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// SettingsKeys are the kinds of settings in a ConfigMap, by its keys.
func SettingsKeys() map[string]string {
	return map[string]string{"mesh": "MeshConfig", "meshNetworks": "MeshNetworks"}
}

// OfConfigMap is what a ConfigMap in a file says of the mesh's settings.
type OfConfigMap struct {
	Line     int // of the object
	Problems []Problem
}

// ConfigMaps judges the ConfigMaps of a file that hold settings of the mesh, in a key mesh. Their lines are those of the file.
func ConfigMaps(file string, data []byte) (out []OfConfigMap) {
	roots, fault := anyDocuments(data)
	if fault != nil {
		return nil // the file is judged elsewhere
	}
	for _, root := range roots {
		if scalarAt(root, "kind") != "ConfigMap" || scalarAt(root, "apiVersion") != "v1" || child(child(root, "data"), "mesh") == nil {
			continue
		}
		found := OfConfigMap{Line: root.Line}
		for key, kind := range SettingsKeys() {
			value := child(child(root, "data"), key)
			if value == nil {
				continue
			}
			_, problems := DecodeSettings(kind, file, []byte(value.Value))
			for _, p := range problems {
				if value.Style == yaml.LiteralStyle {
					p.Line += value.Line
				} else {
					p.Line = value.Line
				}
				p.Object = "ConfigMap " + scalarAt(child(root, "metadata"), "name")
				p.Path = strings.TrimSuffix("data."+key+"."+p.Path, ".")
				found.Problems = append(found.Problems, p)
			}
		}
		byLine(found.Problems)
		out = append(out, found)
	}
	return out
}

// child returns the value of a key, nil for none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// scalarAt returns the text of a key, "" for none.
func scalarAt(n *yaml.Node, key string) string {
	if value := child(n, key); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}
