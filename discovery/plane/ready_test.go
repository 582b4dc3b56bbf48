package plane

import (
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
)

func TestAwaited(t *testing.T) {
	const sources, certificate = "the sources have not synced yet", "there is no certificate of webhooks yet"
	for name, test := range map[string]struct {
		synced           bool
		sources          []discovery.SourceStatus
		lacks            string
		waited, patience time.Duration
		want             string
	}{
		"nothing has synced":                          {false, nil, "", 0, time.Minute, sources},
		"nothing has synced, long after the deadline": {false, nil, certificate, time.Hour, time.Minute, sources},
		"a required source is missing": {
			false,
			[]discovery.SourceStatus{{Name: "Consul", Awaited: true, State: discovery.SourceFailed}, {Name: "other"}, {Name: "config", Awaited: true, Unread: []string{"x"}}},
			"", 0, time.Minute,
			sources + ": Consul failed, config cannot be read in part (/ready?verbose on its host has the reasons)",
		},
		"all is there":                                   {true, nil, "", 0, time.Minute, ""},
		"the webhooks lack something":                    {true, nil, certificate, 59 * time.Second, time.Minute, certificate},
		"the webhooks lack something, after a deadline":  {true, nil, certificate, time.Minute, time.Minute, ""},
		"the webhooks lack something, there is no bound": {true, nil, certificate, 1000 * time.Hour, 0, certificate},
	} {
		if got := awaited(test.synced, test.sources, test.lacks, test.waited, test.patience); got != test.want {
			t.Errorf("%s: it awaits %q, want %q", name, got, test.want)
		}
	}
}

func TestInjectable(t *testing.T) {
	late := func(name string) []discovery.SourceStatus {
		return []discovery.SourceStatus{{Name: "Kubernetes"}, {Name: name, Late: true}}
	}
	for name, test := range map[string]struct {
		meshed  bool
		sources []discovery.SourceStatus
		want    string
	}{
		"there is no mesh":            {false, nil, "there is no mesh before its sources have synced"},
		"all has synced":              {true, []discovery.SourceStatus{{Name: "config"}}, ""},
		"the settings are late":       {true, late("meshConfigMap"), "the source meshConfigMap has not synced"},
		"the objects are late":        {true, late("kubernetesConfig"), "the source kubernetesConfig has not synced"},
		"a registry is late":          {true, late("Consul"), ""},
		"settings that are not asked": {true, nil, ""},
	} {
		got := ""
		if err := injectable(test.meshed, test.sources); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got := injectable(true, []discovery.SourceStatus{{Name: "meshConfig", Late: true, RememberedAt: time.Unix(1, 0)}}); got != nil {
		t.Errorf("with the settings of before the start: %v", got)
	}
	if whole([]discovery.SourceStatus{{Name: "Consul", RememberedAt: time.Unix(1, 0)}}) {
		t.Error("a mesh with a source of before the start counts as whole")
	}
	if whole(late("Consul")) || !whole(nil) {
		t.Error("a mesh without the services of a late registry counts as whole, or one without sources does not")
	}
}
