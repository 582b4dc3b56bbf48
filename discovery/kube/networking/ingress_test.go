package networking

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fieldsOf adds the paths of a type's fields in JSON, with their kinds and whether they are written when they are empty.
// Types of other packages that both have are one path.
func fieldsOf(of reflect.Type, path, options string, out map[string]string) {
	switch {
	case of.Kind() == reflect.Pointer:
		fieldsOf(of.Elem(), path, options+" pointer", out)
	case of.Kind() == reflect.Slice:
		fieldsOf(of.Elem(), path+"[]", options, out)
	case of.Kind() != reflect.Struct || !strings.Contains(of.PkgPath(), "/networking"):
		out[path] = of.Kind().String() + options
		if of.Kind() == reflect.Struct {
			out[path] = of.String() + options
		}
	default:
		for i := range of.NumField() {
			f := of.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if options = strings.TrimPrefix(options, "inline"); name == "" {
				name = "inline"
			}
			fieldsOf(f.Type, path+"."+name, " "+options, out)
		}
	}
}

// The types have the fields of k8s.io/api, and are written alike.
func TestTypesAreTheAPIs(t *testing.T) {
	for _, of := range []struct{ ours, theirs any }{
		{Ingress{}, networkingv1.Ingress{}},
		{IngressList{}, networkingv1.IngressList{}},
		{IngressClass{}, networkingv1.IngressClass{}},
		{IngressClassList{}, networkingv1.IngressClassList{}},
	} {
		got, want := map[string]string{}, map[string]string{}
		fieldsOf(reflect.TypeOf(of.ours), "", "", got)
		fieldsOf(reflect.TypeOf(of.theirs), "", "", want)
		for _, path := range slices.Sorted(maps.Keys(want)) {
			if got[path] != want[path] {
				t.Errorf("%T: %s is %q, want %q", of.ours, path, got[path], want[path])
			}
		}
		for path := range got {
			if _, is := want[path]; !is {
				t.Errorf("%T: %s is none of the API's", of.ours, path)
			}
		}
	}
	if Version() != networkingv1.SchemeGroupVersion || AnnotationIsDefaultIngressClass != networkingv1.AnnotationIsDefaultIngressClass ||
		string(PathTypeExact) != string(networkingv1.PathTypeExact) || string(PathTypePrefix) != string(networkingv1.PathTypePrefix) ||
		string(PathTypeImplementationSpecific) != string(networkingv1.PathTypeImplementationSpecific) {
		t.Error("a version or value is another")
	}
}

// fill sets every field to a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Int32:
		v.SetInt(1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "ObjectMeta" && f.Name != "ListMeta" {
				fill(v.Field(i))
			}
		}
	}
}

// Each is read as it is written by the originals, is known to a scheme, and has deep copies.
func TestObjects(t *testing.T) {
	known := runtime.NewScheme()
	AddToScheme(known)
	for kind, theirs := range map[string]any{
		"Ingress": &networkingv1.Ingress{}, "IngressList": &networkingv1.IngressList{}, "IngressClass": &networkingv1.IngressClass{}, "IngressClassList": &networkingv1.IngressClassList{},
	} {
		fill(reflect.ValueOf(theirs).Elem())
		text, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		o, err := known.New(Version().WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, o); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(o); err != nil || string(again) != string(text) {
			t.Errorf("%s is written as %s, %v, want %s", kind, again, err, text)
		}
		copied := o.DeepCopyObject()
		if copied == o || !reflect.DeepEqual(copied, o) {
			t.Errorf("the copy of a %s is %v, want %v", kind, copied, o)
		}
	}
	i := &Ingress{Spec: IngressSpec{Rules: []IngressRule{{Host: "a"}}}}
	i.Annotations = map[string]string{"a": "b"}
	copied := i.DeepCopyObject().(*Ingress)
	copied.Spec.Rules[0].Host, copied.Annotations["a"] = "b", "c"
	if i.Spec.Rules[0].Host != "a" || i.Annotations["a"] != "b" {
		t.Errorf("a change of a copy is one of %v", i)
	}
}
