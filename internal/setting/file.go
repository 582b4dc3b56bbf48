package setting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

type entry struct {
	Given
	line int
}

// entries reads the file: each known key with its value as text, and the faults, by line.
func (t Table) entries(s Sources) (entries []entry, faults []error) {
	root, err := mapping(s.File)
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", s.FileAt, err)}
	}
	kinds := map[string]Kind{}
	for _, setting := range t.Settings {
		kinds[setting.Name] = setting.Kind
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root); i += 2 {
		key, value := root[i], root[i+1]
		at := fmt.Sprintf("%s:%d: ", s.FileAt, key.Line)
		kind, known := kinds[key.Value]
		text, ok := textOf(value, kind.separator())
		switch before, again := lines[key.Value]; {
		case !known:
			faults = append(faults, t.Unknown(at, "", key.Value))
		case again:
			faults = append(faults, fmt.Errorf("%s%s: given twice, first in line %d", at, key.Value, before))
		case value.Tag == "!!null": // like a missing key
		case !ok:
			faults = append(faults, fmt.Errorf("%s%s: want a value, a list of values or a mapping of names to values", at, key.Value))
		default:
			entries = append(entries, entry{Given{key.Value, text}, key.Line})
		}
		lines[key.Value] = key.Line
	}
	return entries, faults
}

// mapping returns the keys and values of a document, in turns.
func mapping(data []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil // empty, or comments only
	case err != nil:
		return nil, err
	case decoder.Decode(&more) == nil:
		return nil, fmt.Errorf("line %d: a second document: want one", more.Line)
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		return root.Content, nil
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, nil
	}
	return nil, fmt.Errorf("line %d: want a mapping of settings to values, such as statusPort: 15020", root.Line)
}

// textOf returns a value in the form of a flag: a list with separators, a mapping as key=value.
func textOf(value *yaml.Node, separator string) (string, bool) {
	var parts []string
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, true
	case yaml.SequenceNode:
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", false
			}
			parts = append(parts, item.Value)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(value.Content); i += 2 {
			if value.Content[i+1].Kind != yaml.ScalarNode {
				return "", false
			}
			parts = append(parts, value.Content[i].Value+"="+value.Content[i+1].Value)
		}
	default: // an alias
		return "", false
	}
	return strings.Join(parts, separator), true
}
