package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Diff returns how bootstrap b differs from a, both JSON: a line "- path: value" for a value that only a has, "+ path: value"
// for one that only b has, both for one that differs; empty if nothing differs. Lists of named objects, such as clusters, are
// compared by name. mask returns a bootstrap of the same structure without its secrets, and only its values are shown; one that is
// hidden by it and differs is said to.
func Diff(a, b []byte, mask func(bootstrap []byte) ([]byte, error)) (string, error) {
	s := parseFields(fieldsText)
	var trees [4]any // a, b, and both masked
	for i, text := range [][]byte{a, b} {
		hidden, err := mask(text)
		if err != nil {
			return "", fmt.Errorf("compare bootstraps: %w", err)
		}
		for j, text := range [][]byte{text, hidden} {
			if trees[2*j+i], err = parseObject(s, text); err != nil {
				return "", fmt.Errorf("compare bootstraps: %w", err)
			}
		}
	}
	var d diff
	d.compare("", side{trees[0], trees[2], true}, side{trees[1], trees[3], true})
	return strings.Join(d.lines, ""), nil
}

// side is a place in one of the two bootstraps.
type side struct {
	value, shown any
	present      bool
}

type diff struct{ lines []string }

func (d *diff) compare(at string, a, b side) {
	if a.present && b.present && reflect.DeepEqual(a.value, b.value) {
		return
	}
	aItems, aNames := items(a)
	bItems, bNames := items(b)
	if aItems == nil || bItems == nil || aNames != bNames {
		d.show(at, a, b)
		return
	}
	all := maps.Clone(aItems)
	maps.Copy(all, bItems)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d.compare(at+key, aItems[key], bItems[key])
	}
}

func (d *diff) show(at string, a, b side) {
	note := ""
	if a.present && b.present && reflect.DeepEqual(a.shown, b.shown) {
		note = " (differs)"
	}
	for _, line := range []struct {
		sign string
		side side
	}{{"-", a}, {"+", b}} {
		if line.side.present {
			text, _ := json.Marshal(line.side.shown) // was JSON
			d.lines = append(d.lines, fmt.Sprintf("%s %s: %s%s\n", line.sign, strings.TrimPrefix(at, "."), text, note))
		}
	}
}

// items returns what is in an object or a list by how a path goes on to it, nil where nothing can be. Lists are
// indexed by name where each item has one of its own. kind tells what can be compared with what.
func items(s side) (out map[string]side, kind string) {
	switch value := s.value.(type) {
	case map[string]any:
		out, shown := map[string]side{}, s.shown.(map[string]any) // a mask keeps the structure
		for key, item := range value {
			out["."+key] = side{item, shown[key], true}
		}
		return out, "object"
	case []any:
		shown := s.shown.([]any)
		if out = byName(value, shown); out != nil {
			return out, "list by name"
		}
		out = map[string]side{}
		for i, item := range value {
			out[fmt.Sprintf("[%d]", i)] = side{item, shown[i], true}
		}
		return out, "list"
	}
	return nil, ""
}

func byName(value, shown []any) map[string]side {
	out := map[string]side{}
	for i, item := range value {
		object, _ := item.(map[string]any)
		name, ok := object["name"].(string)
		key := "[" + name + "]"
		if _, twice := out[key]; !ok || twice {
			return nil
		}
		out[key] = side{item, shown[i], true}
	}
	return out
}
