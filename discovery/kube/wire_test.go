package kube

import (
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// jsonFields returns the types of a struct's fields by their names in JSON. Text has one name.
func jsonFields(of reflect.Type) map[string]string {
	out := map[string]string{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch text := f.Type.String(); {
		case f.Type.Kind() == reflect.String || f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.String:
			out[name] = "text"
		case f.Type.Kind() == reflect.Struct && f.Type.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1" && f.Type.PkgPath() != "k8s.io/apimachinery/pkg/runtime":
			out[name] = "struct"
		case strings.Contains(text, "ExtraValue"):
			out[name] = "map[string][]string"
		case f.Type.Kind() == reflect.Pointer && f.Type.Elem().PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1":
			out[name] = "*struct"
		default:
			out[name] = text
		}
	}
	return out
}

// What is sent to an API server, and read from it, has the names and types of k8s.io/api.
func TestWireIsTheAPIs(t *testing.T) {
	for _, of := range []struct{ ours, theirs any }{
		{AdmissionReview{}, admissionv1.AdmissionReview{}},
		{AdmissionRequest{}, admissionv1.AdmissionRequest{}},
		{AdmissionResponse{}, admissionv1.AdmissionResponse{}},
		{TokenReviewSpec{}, authenticationv1.TokenReviewSpec{}},
		{TokenReviewStatus{}, authenticationv1.TokenReviewStatus{}},
		{TokenUser{}, authenticationv1.UserInfo{}},
		{Lease{}, coordinationv1.Lease{}},
		{LeaseSpec{}, coordinationv1.LeaseSpec{}},
		{ObjectEvent{}, eventsv1.Event{}},
	} {
		theirs := jsonFields(reflect.TypeOf(of.theirs))
		for name, kind := range jsonFields(reflect.TypeOf(of.ours)) {
			if theirs[name] != kind {
				t.Errorf("%T: %q is %s, want %s", of.ours, name, kind, theirs[name])
			}
		}
	}
	if ours, theirs := reflect.TypeFor[LeaseSpec]().NumField(), reflect.TypeFor[coordinationv1.LeaseSpec]().NumField(); ours != theirs {
		t.Errorf("a LeaseSpec has %d fields, want %d: an update would remove the others", ours, theirs)
	}
	if AdmissionVersion != admissionv1.SchemeGroupVersion.String() || TokenReviewVersion != authenticationv1.SchemeGroupVersion ||
		leaseVersion != coordinationv1.SchemeGroupVersion || eventVersion != eventsv1.SchemeGroupVersion ||
		OperationCreate != string(admissionv1.Create) || PatchTypeJSONPatch != string(admissionv1.PatchTypeJSONPatch) {
		t.Error("a version or value is another")
	}
}
