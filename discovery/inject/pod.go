package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// pod is the JSON of a Pod, or of the template of one.
type pod map[string]any

func (p pod) metadata() map[string]any { m, _ := p["metadata"].(map[string]any); return m }
func (p pod) spec() map[string]any     { m, _ := p["spec"].(map[string]any); return m }

func (p pod) labels() map[string]string      { return texts(p.metadata()["labels"]) }
func (p pod) annotations() map[string]string { return texts(p.metadata()["annotations"]) }

// containers returns the containers that are objects: the API server refuses others.
func (p pod) containers() []map[string]any     { return objects(p.spec()["containers"]) }
func (p pod) initContainers() []map[string]any { return objects(p.spec()["initContainers"]) }

func (p pod) container(name string) map[string]any     { return named(p.containers(), name) }
func (p pod) initContainer(name string) map[string]any { return named(p.initContainers(), name) }

func texts(v any) map[string]string {
	out := map[string]string{}
	found, _ := v.(map[string]any)
	for name, value := range found {
		if text, ok := value.(string); ok {
			out[name] = text
		}
	}
	return out
}

func objects(v any) (out []map[string]any) {
	list, _ := v.([]any)
	for _, item := range list {
		if o, ok := item.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}

func named(list []map[string]any, name string) map[string]any {
	if i := slices.IndexFunc(list, func(o map[string]any) bool { return o["name"] == name }); i >= 0 {
		return list[i]
	}
	return nil
}

func textAt(o map[string]any, path ...string) string {
	for _, key := range path[:len(path)-1] {
		o, _ = o[key].(map[string]any)
	}
	text, _ := o[path[len(path)-1]].(string)
	return text
}

// clone copies maps and lists.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = clone(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = clone(item)
		}
		return out
	}
	return v
}

// sound returns a fault of the Pod's containers that prevents injection. The API server would report it better, for the
// unchanged Pod; but with a sidecar the API server might accept a Pod that it refuses without.
func (p pod) sound() error {
	if len(p.containers()) == 0 {
		return fmt.Errorf("spec.containers: is empty")
	}
	seen := map[string]bool{}
	for _, c := range slices.Concat(p.initContainers(), p.containers()) {
		name, _ := c["name"].(string)
		if name == "" || seen[name] {
			return fmt.Errorf("spec.containers: the name %.63q is missing, or there are two of it", name)
		}
		seen[name] = true
	}
	return nil
}

// object converts a map of texts to an object.
func object(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out[key] = m[key]
	}
	return out
}

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
