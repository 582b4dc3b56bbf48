package kubernetes

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestVerdict(t *testing.T) {
	ref := kube.Ref{Kind: "VirtualService", Namespace: "shop", Name: "a", UID: "u1", Generation: 3}
	fault := config.Problem{Severity: config.Error, Path: "spec.hosts", Message: "is missing"}
	warning := config.Problem{Severity: config.Warning, Path: "spec.tcp", Message: "is ignored"}
	note := model.Note{Code: model.UnknownHost, Path: "spec.http[0]", Message: "nobody has it"}
	fresh, stale := judged{"u1", 3, []model.Note{note}}, judged{"u1", 2, []model.Note{note}}
	sound := judged{uid: "u1", generation: 3}
	said := func(status, reason, message string, generation int64) *kube.Said {
		return &kube.Said{Status: status, Reason: reason, Message: message, Generation: generation}
	}
	for name, test := range map[string]struct {
		problems []config.Problem
		said     *kube.Said
		judged   judged
		want     *kube.Said // nil for none
		details  []kube.Detail
	}{
		"sound, never written to":    {nil, nil, sound, nil, nil},
		"an error":                   {[]config.Problem{warning, fault}, nil, judged{}, said("False", "Refused", "spec.hosts: is missing", 3), []kube.Detail{{Name: "error", Level: "ERROR"}}},
		"an error that is known":     {[]config.Problem{fault}, said("False", "Refused", "spec.hosts: is missing", 3), judged{}, nil, nil},
		"the error of a change":      {[]config.Problem{fault}, said("False", "Refused", "spec.hosts: is missing", 2), fresh, said("False", "Refused", "spec.hosts: is missing", 3), []kube.Detail{{Name: "error", Level: "ERROR"}}},
		"a warning, not judged yet":  {[]config.Problem{warning}, nil, judged{}, nil, nil},
		"a warning, judged before":   {[]config.Problem{warning}, nil, stale, nil, nil},
		"of another with that name":  {[]config.Problem{warning}, nil, judged{uid: "u0", generation: 3}, nil, nil},
		"a note":                     {nil, nil, fresh, said("True", "Doubtful", "spec.http[0]: nobody has it", 3), []kube.Detail{{Name: "unknown-host", Level: "WARNING"}}},
		"a warning and a note":       {[]config.Problem{warning}, nil, fresh, said("True", "Doubtful", "spec.tcp: is ignored; spec.http[0]: nobody has it", 3), []kube.Detail{{Name: "warning", Level: "WARNING"}, {Name: "unknown-host", Level: "WARNING"}}},
		"mended":                     {nil, said("False", "Refused", "x", 2), sound, said("True", "Accepted", "", 3), nil},
		"mended, not judged yet":     {nil, said("False", "Refused", "x", 2), stale, nil, nil},
		"mended by another object":   {nil, said("True", "Doubtful", "x", 3), sound, said("True", "Accepted", "", 3), nil},
		"sound again after a change": {nil, said("True", "Accepted", "", 2), sound, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is, wrong := verdict(tracked{ref, test.problems, test.said}, test.judged)
			if wrong != (test.want != nil) {
				t.Fatalf("the verdict is %+v, %t", is, wrong)
			}
			if wrong {
				if diff := cmp.Diff(kube.Condition{Type: ConditionType, Said: *test.want, Details: test.details}, is); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A message has a maximum size for any problems, and names the number of those that were left out.
func TestVerdictIsBounded(t *testing.T) {
	var problems []config.Problem
	for range 10_000 {
		problems = append(problems, config.Problem{Severity: config.Error, Path: "spec.x", Message: strings.Repeat("ä", 150)})
	}
	problems[0].Message = strings.Repeat("ü", 1<<20)
	is, _ := verdict(tracked{problems: problems}, judged{})
	if len(is.Message) > maxMessage || !strings.Contains(is.Message, " more: see the log") || !utf8.ValidString(is.Message) || len(is.Details) > maxDetails {
		t.Errorf("the message has %d bytes and ends with %q", len(is.Message), is.Message[len(is.Message)-100:])
	}
	is, _ = verdict(tracked{problems: problems[1:]}, judged{})
	if n := strings.Count(is.Message, "spec.x"); n < 10 || len(is.Message) > maxMessage || !strings.Contains(is.Message, " more: see the log") {
		t.Errorf("of many, %d are named in %d bytes", n, len(is.Message))
	}
}

// Notes that depend on the proxies that are connected to one replica are not written: the next leader would write others.
func TestSteadyNotes(t *testing.T) {
	for code, want := range map[model.Code]bool{
		model.ForeignHost: true, model.UnservedHost: true, model.NoProxy: false, model.NoLabels: false, model.TLSToPlain: false, model.PrivilegedPort: false,
	} {
		if got := steady(model.Note{Code: code}); got != want {
			t.Errorf("%s is steady: %t, want %t", code, got, want)
		}
	}
}
