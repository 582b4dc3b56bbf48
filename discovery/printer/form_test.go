package printer

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
)

const two = `
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a, creationTimestamp: "2026-11-23T10:00:00+02:00"}, spec: {host: a.test},
 status: {conditions: [{type: Other, reason: Else}, {type: Accepted, reason: Warned}]}}
---
{kind: DestinationRule, spec: {host: b.test}, apiVersion: networking.istio.io/v1, metadata: {name: b}}
`

func TestForms(t *testing.T) {
	var objects []config.Written
	for i, d := range config.Split([]byte(two)) {
		w := config.ReadWritten(d.Data, "shop")[0]
		w.Revision = string(rune('1' + i))
		objects = append(objects, w)
	}
	for form, want := range map[string][]string{
		"table": {"NAMESPACE   NAME   REVISION   CREATED                ACCEPTED\n", "shop        a      1          2026-11-23T08:00:00Z   Warned\n", "shop        b      2          -                      -\n"},
		"name":  {"DestinationRule shop/a\nDestinationRule shop/b\n"},
		"yaml":  {"kind: List\n", "- kind: DestinationRule\n    spec:\n      host: b.test\n    apiVersion:"},
		"json":  {`"kind": "List"`, `"host": "b.test"`},
	} {
		show, err := Form(form, "Accepted")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := show(&out, objects); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s:\n%s\nlacks %q", form, out.String(), text)
			}
		}
	}
	show, _ := Form("yaml", "")
	var one strings.Builder
	if err := show(&one, objects[1:]); err != nil || !strings.HasPrefix(one.String(), "kind: DestinationRule\n") {
		t.Errorf("one object is %q, %v, want it without a List", one.String(), err)
	}
	if _, err := Form("tabel", ""); err == nil {
		t.Error("a form that there is not is taken")
	}
}
