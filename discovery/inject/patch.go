package inject

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch returns the JSON patch that changes one object into another; nil if they are equal. A list that differs is
// replaced.
func Patch(from, to map[string]any) ([]byte, error) {
	var out []operation
	difference(&out, "", from, to)
	if len(out) == 0 {
		return nil, nil
	}
	return json.Marshal(out)
}

func difference(out *[]operation, at string, from, to map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[key]; !stays {
			*out = append(*out, operation{Op: "remove", Path: at + "/" + escape(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(to)) {
		path, value := at+"/"+escape(key), to[key]
		was, there := from[key]
		before, isObject := was.(map[string]any)
		after, staysObject := value.(map[string]any)
		switch {
		case there && isObject && staysObject && before != nil:
			difference(out, path, before, after)
		case !there || !reflect.DeepEqual(was, value):
			*out = append(*out, operation{"add", path, value})
		}
	}
}

func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
