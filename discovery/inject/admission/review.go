package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Review returns the response for a Pod that is created. It returns nil, which is no answer, until there is a valid
// configuration, and until it is known what MeshConfig and ProxyConfig objects set for the Pod: a Pod keeps the sidecar
// that it is created with. Requests about other things are allowed.
func (s *Source) Review(_ context.Context, r *kube.AdmissionRequest) *kube.AdmissionResponse {
	if r.Kind.Group != "" || r.Kind.Kind != "Pod" || r.SubResource != "" || r.Operation != kube.OperationCreate {
		return &kube.AdmissionResponse{Allowed: true}
	}
	i := s.Injector()
	if i == nil {
		s.Log.Warn("a Pod cannot be injected: there is no configuration yet", "namespace", r.Namespace, "name", r.Name)
		return nil
	}
	out, skipped, err := review(i, r, s.Layers)
	switch {
	case errors.Is(err, ErrNotReady):
		s.Log.Warn("a Pod cannot be injected yet", "namespace", r.Namespace, "name", r.Name, "err", err)
		return nil
	case err != nil:
		reason := cut(err.Error(), longestReason)
		s.Log.Warn("a Pod is refused", "namespace", r.Namespace, "name", r.Name, "err", reason)
		return &kube.AdmissionResponse{Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: "the sidecar cannot be injected: " + reason,
		}}
	case skipped != "":
		s.Log.Info("a Pod is not injected", "namespace", r.Namespace, "name", r.Name, "reason", skipped)
	}
	return out
}

// review returns the response; it is a function of its arguments.
func review(i *inject.Injector, r *kube.AdmissionRequest, layers inject.Layers) (out *kube.AdmissionResponse, skipped string, err error) {
	var given map[string]any
	if err := utiljson.Unmarshal(r.Object.Raw, &given); err != nil {
		return nil, "", fmt.Errorf("the Pod is no object: %w", err)
	}
	result, err := i.Pod(inject.Namespace{Name: r.Namespace, Selected: true}, given, layers)
	if err != nil {
		return nil, "", err
	}
	patch, err := inject.Patch(given, result.Pod)
	if err != nil {
		return nil, "", err
	}
	out = &kube.AdmissionResponse{Allowed: true, Warnings: warnings(result.Warnings)}
	if result.Skipped != "" {
		out.AuditAnnotations = map[string]string{"skipped": result.Skipped} // webhook.Skipped
	}
	if patch != nil {
		kind := kube.PatchTypeJSONPatch
		out.Patch, out.PatchType = patch, &kind
	}
	return out, result.Skipped, nil
}

// The API server drops long warnings, and those above a number.
const longest, most = 256, 16

const longestReason = 4096 // a parser may repeat all of a text

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}

func warnings(all []string) (out []string) {
	for n, text := range all {
		if n == most-1 && len(all) > most {
			return append(out, fmt.Sprintf("and %d more", len(all)-n))
		}
		out = append(out, cut(text, longest))
	}
	return out
}
