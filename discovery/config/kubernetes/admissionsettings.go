package kubernetes

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

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
