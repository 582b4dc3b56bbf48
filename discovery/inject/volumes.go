package inject

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

func isName(s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf("is %.60q, want the name of an object", s)
	}
	return nil
}

// userVolumes reads volumes: an object of sources by name, or a list of volumes. Istio's users write both.
func userVolumes(w *wishes, text string) error {
	items, err := byName[corev1.Volume](text)
	w.volumes = items
	return err
}

func userMounts(w *wishes, text string) error {
	items, err := byName[corev1.VolumeMount](text)
	w.mounts = items
	return err
}

// byName reads {NAME: {…}}, or [{name: NAME, …}], and checks the items with the type T.
func byName[T any](text string) ([]any, error) {
	var found any
	if err := yaml.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	items, isList := found.([]any)
	if table, ok := found.(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			item, _ := clone(table[name]).(map[string]any)
			if item == nil {
				return nil, fmt.Errorf("%.60q: want an object", name)
			}
			item["name"] = name
			items = append(items, item)
		}
	} else if !isList {
		return nil, fmt.Errorf(`is %.60q, want {"NAME": {…}}`, text)
	}
	for _, item := range items {
		data, err := yaml.Marshal(item)
		if err != nil {
			return nil, err
		}
		var typed T
		if err := yaml.UnmarshalStrict(data, &typed); err != nil {
			return nil, fmt.Errorf("is not understood: %w", err)
		}
		o, _ := item.(map[string]any)
		if name, _ := o["name"].(string); isName(name) != nil {
			return nil, fmt.Errorf("the name %.60q: want one of letters, digits and -", name)
		}
	}
	return items, nil
}
