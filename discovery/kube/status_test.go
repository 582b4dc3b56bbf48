package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ours = "PilotlightAccepted"

func object1(fields ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		out[fields[i].(string)] = fields[i+1]
	}
	return out
}

// The conditions and messages of other programs stay as they are. A condition with the same content is no change, and
// one with the same status keeps its lastTransitionTime.
func TestWithCondition(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	is := Condition{ours, Said{"False", "Refused", "spec.hosts: is missing", 3}, []Detail{{"error", "ERROR"}}}
	foreign := object1("type", "Reconciled", "status", "True", "observedGeneration", "2")
	theirs := object1("type", object1("name", "ReferencedResourceNotFound", "code", "IST0101"), "level", "ERROR")
	message := object1("type", object1("name", "pilotlight/error"), "level", "ERROR")
	condition := func(status string, generation any, since string) map[string]any {
		return object1("type", ours, "status", status, "reason", "Refused", "message", "spec.hosts: is missing", "observedGeneration", generation, "lastTransitionTime", since)
	}
	const today, before = "2026-01-31T12:00:00Z", "2026-01-01T00:00:00Z"
	list := func(all ...any) []any { return all }
	for name, test := range map[string]struct {
		status  any
		want    map[string]any
		changed bool
	}{
		"none": {nil, object1("conditions", list(condition("False", int64(3), today)), "validationMessages", list(message)), true},
		"of others": {
			object1("conditions", list(foreign), "validationMessages", list(theirs), "addresses", list(object1("value", "240.240.0.1"))),
			object1("conditions", list(foreign, condition("False", int64(3), today)), "validationMessages", list(theirs, message)), true,
		},
		"the same": {
			object1("conditions", list(condition("False", int64(3), before), foreign), "validationMessages", list(message)),
			object1("conditions", list(foreign, condition("False", int64(3), before)), "validationMessages", list(message)), false,
		},
		"as protobuf writes it": {
			object1("conditions", list(condition("False", "3", before)), "validationMessages", list(message)),
			object1("conditions", list(condition("False", int64(3), before)), "validationMessages", list(message)), false,
		},
		"of another generation": {
			object1("conditions", list(condition("False", int64(2), before)), "validationMessages", list(message)),
			object1("conditions", list(condition("False", int64(3), before)), "validationMessages", list(message)), true,
		},
		"another status": {
			object1("conditions", list(condition("True", int64(3), before)), "validationMessages", list(message)),
			object1("conditions", list(condition("False", int64(3), today)), "validationMessages", list(message)), true,
		},
		"messages that are gone": {
			object1("conditions", list(condition("False", int64(3), before))),
			object1("conditions", list(condition("False", int64(3), before)), "validationMessages", list(message)), true,
		},
		"nonsense": {
			object1("conditions", "x", "validationMessages", object1("a", "b")),
			object1("conditions", list(condition("False", int64(3), today)), "validationMessages", list(message)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			applied, changed := withCondition(test.status, is, now)
			if diff := cmp.Diff(test.want, applied); diff != "" || changed != test.changed {
				t.Errorf("changed is %t, want %t (-want +got):\n%s", changed, test.changed, diff)
			}
		})
	}
}

// An Event of one generation and text has one name; fields that are too long for the API server are cut.
func TestEventOf(t *testing.T) {
	of := Ref{Kind: "VirtualService", Namespace: "shop", Name: strings.Repeat("a.", 126) + "a", UID: "u1", Generation: 3}
	is := Said{"False", "Refused", strings.Repeat("ä", 2000), 3}
	a, b := eventOf(of, is, strings.Repeat("i", 300), time.Unix(1, 0)), eventOf(of, is, "other", time.Unix(2, 0))
	if a.Name != b.Name || len(a.Name) > maxName || strings.Contains(a.Name, "..") {
		t.Errorf("the names are %s and %s", a.Name, b.Name)
	}
	if len(a.Note) != maxNote || strings.ContainsRune(a.Note, '\uFFFD') || len(a.ReportingInstance) > maxInstance || a.Type != "Warning" {
		t.Errorf("the Event is %+v", a)
	}
	is.Generation = 4
	if c := eventOf(of, is, "other", time.Unix(2, 0)); c.Name == a.Name {
		t.Errorf("another generation has the same name %s", c.Name)
	}
	if d := eventOf(of, Said{"True", "Accepted", "", 4}, "other", time.Unix(2, 0)); d.Type != "Normal" {
		t.Errorf("of a sound object there is %+v", d)
	}
}
