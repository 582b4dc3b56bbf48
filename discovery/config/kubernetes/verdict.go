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
	doubtful = "Doubtful" // it is served, and something is to be said of it
	accepted = "Accepted" // it is served, after one of the others
)

// What a message holds.
const (
	maxMessage = 4096 // bytes
	maxDetails = 20
)

// tracked is an object of which something is to be said, or was.
type tracked struct {
	ref      kube.Ref
	problems []config.Problem // what is wrong with the object alone
	said     *kube.Said       // what its status says; nil for nothing of ours
}

// judged is what is known of an object once it is in a mesh with all others.
type judged struct {
	uid        string
	generation int64
	notes      []model.Note
}

// verdict returns the condition that the object is to have; false where it is to have none, or is not judged yet.
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
		return is, false // another generation is as good: nobody needs to know
	}
	return is, true
}

// joined is all texts as one, as far as there is room.
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

// cut shortens a text to about so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// steady reports whether a note is the same in every replica: others depend on the proxies that are connected to one.
func steady(n model.Note) bool {
	return !slices.Contains([]model.Code{model.RefusedByProxy, model.PrivilegedPort, model.UnknownNamespace, model.EmptySelector}, n.Code)
}

// saidOf returns what the status of an object says by a condition of ours.
func saidOf(o *unstructured.Unstructured) *kube.Said {
	status, _ := o.Object["status"].(map[string]any)
	return kube.SaidOf(status, ConditionType)
}
