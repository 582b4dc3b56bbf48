package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Limits of the warnings that a client sees.
const (
	maxWarnings = 20
	maxWarning  = 250 // bytes of one: the API server cuts at 256
)

// Reviewer judges objects before they are written.
type Reviewer struct{}

// Review judges an object by the rules of validate. Errors refuse it, each with its field; warnings are shown to the
// client. An object whose specification does not change, or that is being deleted, is admitted with its errors as
// warnings: changes of its labels or finalizers, and its deletion, must not wait until a user corrects it.
func (Reviewer) Review(ctx context.Context, r *kube.AdmissionRequest) *kube.AdmissionResponse {
	if len(r.Object.Raw) == 0 || r.SubResource != "" { // a deletion, or a status
		return &kube.AdmissionResponse{Allowed: true}
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(r.Object.Raw); err != nil {
		return denied([]config.Problem{{Message: "cannot be read: " + err.Error()}})
	}
	strip(o)
	if r.Kind.Group == "" && r.Kind.Kind == "ConfigMap" {
		return reviewSettings(r)
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(strings.TrimRight(o.GetGenerateName(), "-.") + "-x") // the API server makes a name later
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(r.Namespace)
	}
	if err := ctx.Err(); err != nil {
		return denied([]config.Problem{{Message: "is not judged: " + err.Error()}})
	}
	_, problems := groupOf(ctx, o, "")
	var errors []config.Problem
	warnings := []string{}
	for _, p := range problems {
		if p.Severity == config.Error {
			errors = append(errors, p)
		} else {
			warnings = append(warnings, cut(textOf(p), maxWarning))
		}
	}
	if len(errors) > 0 && o.GetDeletionTimestamp() == nil && !sameSpec(r.OldObject.Raw, o) {
		return denied(errors)
	}
	for _, p := range errors {
		warnings = append(warnings, cut("is refused by discovery: "+textOf(p), maxWarning))
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings-1], fmt.Sprintf("%d more: see discovery validate", more+1))
	}
	return &kube.AdmissionResponse{Allowed: true, Warnings: warnings}
}

func denied(errors []config.Problem) *kube.AdmissionResponse {
	var texts []string
	details := &metav1.StatusDetails{}
	for _, p := range errors {
		texts = append(texts, textOf(p))
		if len(details.Causes) < maxDetails {
			details.Causes = append(details.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: p.Path, Message: cut(p.Message, maxMessage)})
		}
	}
	return &kube.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: joined(texts), Details: details,
	}}
}

// textOf returns the text of a problem, with its place in the object.
func textOf(p config.Problem) string {
	return strings.TrimPrefix(p.Path+": "+strings.TrimSpace(p.Message), ": ")
}

// sameSpec reports whether an object has the specification of its form before.
func sameSpec(before []byte, now *unstructured.Unstructured) bool {
	last := &unstructured.Unstructured{}
	return len(before) > 0 && last.UnmarshalJSON(before) == nil && reflect.DeepEqual(last.Object["spec"], now.Object["spec"])
}

// reviewSettings judges a ConfigMap of the mesh's settings. What is wrong refuses it, unless it was there before: labels
// must not wait until a user corrects it.
func reviewSettings(r *kube.AdmissionRequest) *kube.AdmissionResponse {
	now, before := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	if err := json.Unmarshal(r.Object.Raw, now); err != nil {
		return denied([]config.Problem{{Message: "cannot be read: " + err.Error()}})
	}
	if len(r.OldObject.Raw) > 0 {
		_ = json.Unmarshal(r.OldObject.Raw, before) // without it everything counts as new
	}
	var errors []config.Problem
	var warnings []string
	for key, kind := range config.SettingsKeys() {
		text, has := now.Data[key]
		was, had := before.Data[key]
		problems := problemsOf(kind, text)
		if !has {
			problems = nil
			if kind == "MeshConfig" {
				problems = []config.Problem{{Severity: config.Error, Message: "is not there, want a MeshConfig, {} for Istio's defaults"}}
			}
		}
		for _, p := range problems {
			if p.Path = "data." + key; p.Line > 0 {
				p.Message = fmt.Sprintf("line %d: %s", p.Line, p.Message)
			}
			if p.Severity == config.Error && (has != had || text != was || len(r.OldObject.Raw) == 0) {
				errors = append(errors, p)
			} else if len(warnings) < maxWarnings {
				warnings = append(warnings, cut(textOf(p), maxWarning))
			}
		}
	}
	if len(errors) > 0 && now.DeletionTimestamp == nil {
		return denied(errors)
	}
	return &kube.AdmissionResponse{Allowed: true, Warnings: warnings}
}

// problemsOf returns the problems of settings; the message of each begins with its field.
func problemsOf(kind, text string) []config.Problem {
	_, problems := config.DecodeSettings(kind, "", []byte(text))
	for i, p := range problems {
		problems[i].Message = faultOf(p)
	}
	return problems
}
