package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// state is the known state of a cluster. follow begins to follow a Watch.
type state struct {
	cluster    string
	namespaces []string
	follow     func(*kube.Watch) (stop func())
	statuses   *Statuses // nil if none are written

	kinds    map[*kube.Watch]*kind // by the watch of the definition, and by those of the objects that are followed
	unsent   map[string]model.Group
	warnings []config.Problem
}

// kind is one kind of object.
type kind struct {
	config.Resource
	refused map[*kube.Watch]bool   // watches that the API server refuses, which is reported
	version string                 // the version that is followed; "" while there is no definition
	watches map[*kube.Watch]func() // of its objects, with the functions that stop them
	known   map[string]known       // objects by the keys of their groups
}

// retry is how long a kind that is served waits after a refusal.
const retry = 10 * time.Second

// known identifies one form of an object.
type known struct {
	uid        string
	generation int64
	labels     map[string]string
	namespace  string
	dryRun     string // an annotation, of which no generation tells
}

func newState(cluster string, namespaces []string, follow func(*kube.Watch) (stop func())) *state {
	return &state{
		cluster: cluster, namespaces: kube.Namespaces(namespaces), follow: follow, kinds: map[*kube.Watch]*kind{}, unsent: map[string]model.Group{},
	}
}

// define returns the watch of a kind's definition.
func (st *state) define(r config.Resource) *kube.Watch {
	w := &kube.Watch{
		Resource: schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		Kind:     "CustomResourceDefinition", Fields: "metadata.name=" + r.Plural + "." + r.Group, Strip: withoutSchemas, Awaited: true,
		Optional: true, Retry: retry,
	}
	st.kinds[w] = &kind{Resource: r, refused: map[*kube.Watch]bool{}, watches: map[*kube.Watch]func(){}, known: map[string]known{}}
	return w
}

// changes returns the groups that changed since the last call.
func (st *state) changes() map[string]model.Group {
	out := st.unsent
	st.unsent = map[string]model.Group{}
	return out
}

// apply applies one event of a watch that runs.
func (st *state) apply(e kube.Event) {
	k := st.kinds[e.Of]
	if st.setUnread(k, e); e.Refused != nil {
		return
	}
	if _, ofObjects := k.watches[e.Of]; !ofObjects {
		st.defined(k, e)
		return
	}
	switch {
	case e.List:
		listed := map[string]bool{}
		for _, o := range e.All {
			listed[st.put(k, o)] = true
		}
		for key, was := range k.known {
			if !listed[key] && (e.Of.Namespace == "" || was.namespace == e.Of.Namespace) {
				st.drop(k, key)
			}
		}
	case e.Put != nil:
		st.put(k, e.Put)
	default:
		if o, ok := e.Gone.(*unstructured.Unstructured); ok {
			st.drop(k, keyOf(k, o))
		}
	}
}

// defined applies a change of a kind's definition.
func (st *state) defined(k *kind, e kube.Event) {
	version := ""
	for o := range kube.Objects[*unstructured.Unstructured](e) {
		version = servedVersion(o, k.Versions)
	}
	if version == k.version {
		return
	}
	st.unfollow(k)
	if k.version = version; version == "" {
		for key := range maps.Clone(k.known) {
			st.drop(k, key)
		}
		return
	}
	for _, namespace := range st.namespaces {
		w := &kube.Watch{
			Resource: schema.GroupVersionResource{Group: k.Group, Version: version, Resource: k.Plural},
			Kind:     k.Kind, Namespace: namespace, Strip: strip, Awaited: true, Optional: true, Retry: retry,
		}
		st.kinds[w] = k
		k.watches[w] = st.follow(w)
	}
}

func (st *state) unfollow(k *kind) {
	for w, stop := range k.watches {
		stop()
		delete(st.kinds, w)
		delete(k.refused, w)
	}
	clear(k.watches)
}

// put adds or updates an object, and returns its key.
func (st *state) put(k *kind, o any) string {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	key := keyOf(k, u)
	now := known{string(u.GetUID()), u.GetGeneration(), u.GetLabels(), u.GetNamespace(), u.GetAnnotations()["istio.io/dry-run"]}
	was, had := k.known[key]
	object := tracked{ref: refOf(k, u), said: saidOf(u)}
	if had && was.uid == now.uid && was.generation == now.generation && maps.Equal(was.labels, now.labels) && was.dryRun == now.dryRun {
		st.statuses.setCondition(key, object) // only its status changed, or nothing
		return key
	}
	k.known[key] = now
	group, problems := groupOf(context.Background(), u, st.cluster)
	st.unsent[key], st.warnings = group, append(st.warnings, warningsAmong(problems)...)
	object.problems = problems
	st.statuses.put(key, object)
	return key
}

func (st *state) drop(k *kind, key string) {
	if _, had := k.known[key]; had {
		delete(k.known, key)
		st.unsent[key] = model.Group{}
		st.statuses.drop(key)
	}
}

// setUnread reports a kind that the API server does not allow to read, or cannot convert. The others are followed; of
// this one the last objects stay.
func (st *state) setUnread(k *kind, e kube.Event) {
	key, was := "unread/"+k.Kind, len(k.refused)
	switch {
	case e.Refused != nil:
		k.refused[e.Of] = true
		st.unsent[key] = model.Group{Faults: []string{fmt.Sprintf("objects of %s cannot be read: %v", k.Kind, e.Refused)}, Unread: true}
	case e.List:
		if delete(k.refused, e.Of); was > 0 && len(k.refused) == 0 {
			st.unsent[key] = model.Group{}
		}
	}
}

func keyOf(k *kind, o *unstructured.Unstructured) string {
	return k.Kind + "/" + o.GetNamespace() + "/" + o.GetName()
}

// servedVersion returns the best version that a definition serves; "" while it serves none.
func servedVersion(o *unstructured.Unstructured, want []string) string {
	if o.GetDeletionTimestamp() != nil {
		return ""
	}
	established := false
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" {
			established = c["status"] == "True"
		}
	}
	served := map[string]bool{}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			name, _ := v["name"].(string)
			served[name], _ = v["served"].(bool)
		}
	}
	i := slices.IndexFunc(want, func(v string) bool { return served[v] })
	if i < 0 || !established {
		return ""
	}
	return want[i]
}

// refOf returns the reference of an object in its present form.
func refOf(k *kind, o *unstructured.Unstructured) kube.Ref {
	return kube.Ref{
		Resource: schema.GroupVersionResource{Group: k.Group, Version: k.version, Resource: k.Plural}, Kind: k.Kind,
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), Generation: o.GetGeneration(),
	}
}

// strip removes the fields that are not read: an applied object holds a second copy of itself. Of the status only the
// condition of discovery stays.
func strip(o any) {
	if o, ok := o.(*unstructured.Unstructured); ok {
		o.SetManagedFields(nil)
		said := saidOf(o)
		if unstructured.RemoveNestedField(o.Object, "status"); said != nil {
			o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
				"type": ConditionType, "status": said.Status, "reason": said.Reason, "message": said.Message, "observedGeneration": said.Generation,
			}}}
		}
		annotations := o.GetAnnotations()
		maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.Contains(key, "istio.io/") })
		o.SetAnnotations(annotations)
	}
}

// withoutSchemas removes the schemas from a definition: they are nearly all of it.
func withoutSchemas(o any) {
	d, ok := o.(*unstructured.Unstructured)
	if !ok {
		return
	}
	d.SetManagedFields(nil)
	d.SetAnnotations(nil)
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok {
			delete(v, "schema")
		}
	}
	if len(versions) > 0 {
		_ = unstructured.SetNestedSlice(d.Object, versions, "spec", "versions") // the spec exists
	}
}

// groupOf decodes an object like one in a file. For an object with an error the group has only the faults.
func groupOf(ctx context.Context, o *unstructured.Unstructured, cluster string) (group model.Group, problems []config.Problem) {
	data, err := o.MarshalJSON()
	if err != nil {
		return model.Group{Faults: []string{err.Error()}}, nil
	}
	for _, item := range config.ReadUntil(ctx.Err, data) {
		problems = append(problems, item.Problems...)
		for _, p := range item.Problems {
			if p.Severity == config.Error {
				group.Faults = append(group.Faults, faultOf(p))
			}
		}
		if of := cmp.Or(item.Object, item.Closed); of != nil {
			object := *of
			object.Origin = model.Origin{Record: &model.Record{
				Cluster: cluster, UID: string(o.GetUID()), Generation: o.GetGeneration(), Version: o.GetResourceVersion(),
			}}
			group.Objects = append(group.Objects, &object)
		}
	}
	if group.Empty() {
		group.Faults = []string{fmt.Sprintf("%s of %s is not served", o.GetKind(), o.GetAPIVersion())}
	}
	return group, problems
}

func warningsAmong(problems []config.Problem) []config.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p config.Problem) bool { return p.Severity == config.Error })
}

// faultOf returns the text of a problem, with its place in the object.
func faultOf(p config.Problem) string { return strings.TrimSpace(p.Path + " " + p.Message) }
