package admission

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

// Review returns the response for a Pod that is created. It returns nil, which is no answer, until there is a valid
// configuration.
func (s *Source) Review(_ context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	i := s.Injector()
	if i == nil {
		s.Log.Warn("a Pod cannot be injected: there is no configuration yet", "namespace", r.Namespace, "name", r.Name)
		return nil
	}
	if r.Kind.Group != "" || r.Kind.Kind != "Pod" || r.SubResource != "" || r.Operation != admissionv1.Create {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	out, skipped, err := review(i, r)
	switch {
	case err != nil:
		s.Log.Warn("a Pod is refused", "namespace", r.Namespace, "name", r.Name, "err", err)
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: fmt.Sprintf("the sidecar cannot be injected: %v", err),
		}}
	case skipped != "":
		s.Log.Info("a Pod is not injected", "namespace", r.Namespace, "name", r.Name, "reason", skipped)
	}
	return out
}

// review returns the response; it is a function of its arguments.
func review(i *inject.Injector, r *admissionv1.AdmissionRequest) (out *admissionv1.AdmissionResponse, skipped string, err error) {
	var given map[string]any
	if err := utiljson.Unmarshal(r.Object.Raw, &given); err != nil {
		return nil, "", fmt.Errorf("the Pod is no object: %w", err)
	}
	result, err := i.Pod(inject.Namespace{Name: r.Namespace}, given)
	if err != nil {
		return nil, "", err
	}
	patch, err := inject.Patch(given, result.Pod)
	if err != nil {
		return nil, "", err
	}
	out = &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings(result.Warnings)}
	if result.Skipped != "" {
		out.AuditAnnotations = map[string]string{"skipped": result.Skipped} // webhook.Skipped
	}
	if patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		out.Patch, out.PatchType = patch, &kind
	}
	return out, result.Skipped, nil
}

// The API server drops long warnings, and those above a number.
const longest, most = 256, 16

func warnings(all []string) (out []string) {
	for n, text := range all {
		if n == most-1 && len(all) > most {
			return append(out, fmt.Sprintf("and %d more", len(all)-n))
		}
		out = append(out, text[:min(len(text), longest)])
	}
	return out
}
