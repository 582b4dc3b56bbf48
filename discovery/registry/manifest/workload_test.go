package manifest

import (
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// fieldsOf adds the paths of a type's fields in JSON. Types of other packages that both have are one path.
func fieldsOf(of reflect.Type, path string, out map[string]string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	ours := of.Name() == "" || strings.HasSuffix(of.PkgPath(), "/manifest") || strings.HasSuffix(of.PkgPath(), "/apps/v1")
	if of.Kind() != reflect.Struct || !ours {
		out[path] = of.Kind().String()
		if of.Kind() == reflect.Struct {
			out[path] = of.String()
		}
		return
	}
	for i := range of.NumField() {
		f := of.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fieldsOf(f.Type, path+"."+name, out)
		} else {
			fieldsOf(f.Type, path, out)
		}
	}
}

// Specifications have the fields, and the types of JSON, that those of k8s.io/api have.
func TestStartersAreTheAPIs(t *testing.T) {
	for kind, of := range map[string]any{
		"Deployment": appsv1.DeploymentSpec{}, "StatefulSet": appsv1.StatefulSetSpec{}, "DaemonSet": appsv1.DaemonSetSpec{}, "ReplicaSet": appsv1.ReplicaSetSpec{},
	} {
		got, want := map[string]string{}, map[string]string{}
		fieldsOf(reflect.TypeOf(empty(kind).(*starter).Spec), "spec", got)
		fieldsOf(reflect.TypeOf(of), "spec", want)
		for path := range want {
			if got[path] != want[path] {
				t.Errorf("%s: %s is %q, want %q", kind, path, got[path], want[path])
			}
		}
		for path := range got {
			if _, is := want[path]; !is {
				t.Errorf("%s: %s is none of the API's", kind, path)
			}
		}
	}
}
