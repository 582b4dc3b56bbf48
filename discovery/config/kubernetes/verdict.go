package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// ConditionType is the type of the condition that discovery writes. Istio's own is Reconciled.
const ConditionType = "PilotlightAccepted"

// Reasons of the condition.
const (
	refused  = "Refused"  // it has an error: its last good form is served, if there is one
	doubtful = "Doubtful" // it is served, and has warnings or notes
	accepted = "Accepted" // it is served, after it had one of the other reasons
)

// Limits of a message.
const (
	maxMessage = 4096 // bytes
	maxDetails = 20
)

// tracked is an object that has problems, or a condition in its status.
type tracked struct {
	ref      kube.Ref
	problems []config.Problem // of the object by itself
	said     *kube.Said       // its present condition; nil if it has no condition of discovery
}

// judged holds the notes of an object, which exist once it is in a mesh with all others.
type judged struct {
	uid        string
	generation int64
	notes      []model.Note
}

// verdict returns the condition to write to an object; false if nothing must be written, or if it is not judged yet.
func verdict(o tracked, j judged) (kube.Condition, bool) {
	is := kube.Condition{Type: ConditionType, Said: kube.Said{Status: "True", Reason: accepted, Generation: o.ref.Generation}}
	var texts []string
	say := func(path, text, name, level string) {
		texts = append(texts, strings.TrimPrefix(path+": "+strings.TrimSpace(text), ": "))
		if d := (kube.Detail{Name: name, Level: level}); !slices.Contains(is.Details, d) && len(is.Details) < maxDetails {
			is.Details = append(is.Details, d)
		}
	}
	wrong := config.HasErrors(o.problems)
	for _, p := range o.problems {
		switch {
		case p.Severity == config.Error:
			say(p.Path, p.Message, "error", "ERROR")
		case !wrong:
			say(p.Path, p.Message, "warning", "WARNING")
		}
	}
	switch {
	case wrong:
		is.Status, is.Reason = "False", refused
	case j.uid != o.ref.UID || j.generation != o.ref.Generation:
		return is, false
	default:
		for _, n := range j.notes {
			say(n.Path, n.Message, string(n.Code), "WARNING")
		}
		if len(texts) > 0 {
			is.Reason = doubtful
		}
	}
	is.Message = joined(texts)
	if o.said == nil && len(texts) == 0 || o.said != nil && *o.said == is.Said {
		return is, false
	}
	if o.said != nil && o.said.Reason == accepted && is.Reason == accepted {
		return is, false // only the generation differs, which needs no write
	}
	return is, true
}

// joined returns the texts as one, up to the limit.
func joined(texts []string) string {
	var out strings.Builder
	for i, text := range texts {
		rest := fmt.Sprintf("; %d more: see the log, or discovery validate", len(texts)-i)
		if i > 0 && out.Len()+len(text)+len(rest) > maxMessage {
			out.WriteString(rest)
			break
		}
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(cut(text, maxMessage-len(rest)-100))
	}
	return out.String()
}

// cut shortens a text to about most bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// steady reports whether a note is the same in every replica: others depend on the proxies that are connected to one.
func steady(n model.Note) bool {
	return !slices.Contains([]model.Code{
		model.RefusedByProxy, model.PrivilegedPort, model.UnknownNamespace, model.EmptySelector, model.NoProxy, model.NoLabels, model.TLSToPlain,
	}, n.Code)
}

// saidOf returns the condition of discovery in the status of an object.
func saidOf(o *unstructured.Unstructured) *kube.Said {
	status, _ := o.Object["status"].(map[string]any)
	return kube.SaidOf(status, ConditionType)
}
