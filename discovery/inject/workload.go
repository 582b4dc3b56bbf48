package inject

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// templates are the paths of the Pod template in each kind of Kubernetes.
var templates = map[string][]string{
	"Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "DaemonSet": {"spec", "template"}, "ReplicaSet": {"spec", "template"},
	"ReplicationController": {"spec", "template"}, "Job": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"},
}

// Note is a warning or another message about an object of a manifest.
type Note struct {
	Object string // KIND NAMESPACE/NAME
	Text   string
}

func (n Note) String() string { return n.Object + ": " + n.Text }

// surroundings are what a workload's injection depends on, beside the workload.
type surroundings struct {
	namespace string                       // of objects that name none
	labels    map[string]map[string]string // of the namespaces in the manifest
	layers    Layers
}

// Manifest injects each workload of a stream of YAML or JSON. The text of documents without a workload stays as it is.
// Objects without a namespace belong to the given one. The labels of Namespaces in the stream are used. layers are
// those of Pod. If there is a fault, out is nil, and the error has all faults.
func (i *Injector) Manifest(text []byte, namespace string, layers Layers) (out []byte, notes []Note, err error) {
	type document struct {
		text   []byte
		object map[string]any
	}
	var all []document
	var faults []error
	around := surroundings{namespace: namespace, labels: map[string]map[string]string{}, layers: layers}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		data, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		o, err := readObject(data)
		if err != nil {
			faults = append(faults, fmt.Errorf("document %d: %w", len(all)+1, err))
		}
		all = append(all, document{data, o})
		for _, item := range append(items(o), o) {
			if item["kind"] == "Namespace" {
				around.labels[textAt(item, "metadata", "name")] = pod(item).labels()
			}
		}
	}
	var parts [][]byte
	for _, d := range all {
		changed := false
		for n, o := range items(d.object) {
			r, said, err := i.workload(o, around)
			if notes = append(notes, said...); err != nil {
				faults = append(faults, err)
			} else if r != nil {
				d.object["items"].([]any)[n], changed = r, true
			}
		}
		if items(d.object) == nil && d.object != nil {
			r, said, err := i.workload(d.object, around)
			if notes = append(notes, said...); err != nil {
				faults = append(faults, err)
			} else if r != nil {
				d.object, changed = r, true
			}
		}
		if changed {
			if d.text, err = yaml.Marshal(d.object); err != nil {
				return nil, nil, err
			}
		}
		parts = append(parts, append(bytes.TrimRight(d.text, "\n"), '\n'))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, notes, err
	}
	return bytes.Join(parts, []byte("---\n")), notes, nil
}

// readObject reads a document; it returns nil for an empty one.
func readObject(data []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	if string(text) == "null" {
		return nil, nil
	}
	var o map[string]any
	if err := utiljson.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("is no object: %w", err)
	}
	return o, nil
}

// items returns the items of a List, in its order.
func items(o map[string]any) []map[string]any {
	kind, _ := o["kind"].(string)
	list, isList := o["items"].([]any)
	if !strings.HasSuffix(kind, "List") || !isList {
		return nil
	}
	out := make([]map[string]any, len(list))
	for i, item := range list {
		out[i], _ = item.(map[string]any)
	}
	return out
}

// workload injects an object, and returns it; nil if it does not change.
func (i *Injector) workload(o map[string]any, around surroundings) (map[string]any, []Note, error) {
	kind, _ := o["kind"].(string)
	namespace := cmp.Or(textAt(o, "metadata", "namespace"), around.namespace)
	name := strings.TrimSpace(fmt.Sprintf("%s %s/%s", kind, namespace, cmp.Or(textAt(o, "metadata", "name"), textAt(o, "metadata", "generateName"))))
	path, known := templates[kind]
	if kind == "Pod" {
		known = true
	}
	out, _ := clone(o).(map[string]any)
	at, holder, key := out, map[string]any(nil), ""
	for _, key = range path {
		holder = at
		at, _ = at[key].(map[string]any)
	}
	if !known {
		return nil, unknownKind(kind, name, o, around), nil
	}
	if at == nil {
		return nil, nil, fmt.Errorf("%s: %s is missing", name, strings.Join(path, "."))
	}
	given := at
	if kind != "Pod" {
		given = podOf(at, textAt(o, "metadata", "name"))
	}
	r, err := i.Pod(Namespace{Name: namespace, Labels: around.labels[namespace]}, given, around.layers)
	if err != nil {
		var faults []error
		for _, fault := range each(err) {
			faults = append(faults, fmt.Errorf("%s: %w", name, fault))
		}
		return nil, nil, errors.Join(faults...)
	}
	if r.Skipped != "" {
		return nil, []Note{{name, "not injected: " + r.Skipped}}, nil
	}
	var notes []Note
	for _, warning := range r.Warnings {
		notes = append(notes, Note{name, warning})
	}
	if kind == "Pod" {
		return r.Pod, notes, nil
	}
	if metadata, _ := at["metadata"].(map[string]any); metadata["name"] == nil {
		delete(pod(r.Pod).metadata(), "name")
	}
	holder[key] = r.Pod
	return out, notes, nil
}

// unknownKind returns a note about an object that has no Pods as far as is known here, but may mean to.
func unknownKind(kind, name string, o map[string]any, around surroundings) []Note {
	spec := pod(o).spec()
	switch {
	case kind == "ProxyConfig" && around.layers == nil:
		return []Note{{name, "is not joined: --proxyConfig names the files whose ProxyConfig objects are"}}
	case spec != nil && textAt(spec, "template", "spec") == "" && len(pod(templateOf(spec)).containers()) > 0:
		return []Note{{name, "not injected: this kind is not known, though it has a template of Pods"}}
	}
	return nil
}

// podOf returns a template as one of its Pods, which are named after the workload.
func podOf(template map[string]any, workload string) map[string]any {
	out := maps.Clone(template)
	metadata, _ := clone(template["metadata"]).(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if metadata["name"] == nil {
		metadata["name"] = workload
	}
	out["metadata"] = metadata
	return out
}

// each returns the errors that errors.Join has joined.
func each(err error) (out []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		out = append(out, each(e)...)
	}
	return out
}

func templateOf(spec map[string]any) map[string]any {
	t, _ := spec["template"].(map[string]any)
	return t
}
