package config

import (
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// An object keeps the lines of its fields: notes about it are made after its file was closed.
func TestLines(t *testing.T) {
	objects, problems := Decode("f", []byte("\n"+`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a}
spec:
  hosts:
  - a
  - b
  http:
  - match:
    - uri: {prefix: /a}
      headers:
        x.y~z:
          exact: b
    route:
    - destination: {host: a}
      weight: 1

    - destination:
        host: b
        subset: v1
      weight: 1
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for path, want := range map[string]int{
		"":                             2,
		"metadata":                     2,
		"spec":                         5,
		"spec.exportTo[1]":             5,
		"spec.hosts":                   6,
		"spec.hosts[0]":                7,
		"spec.hosts[1]":                8,
		"spec.hosts[11]":               6,
		"spec.http[0]":                 10,
		"spec.http[0].timeout":         10,
		"spec.http[0].match[0].uri":    11,
		"spec.http[0].match[0].method": 11,
		"spec.http[0].match[0].headers.x.y~z.exact":         14,
		"spec.http[0].route[0].destination.port.number":     16,
		"spec.http[0].route[1].destination.host":            20,
		"spec.http[0].route[1].destination.subset":          21,
		"spec.http[0].route[1].destination.subset[0].other": 21,
		"spec.http[0].route[1].weight":                      22,
		"spec.http[1].route[1].destination.host":            9,
	} {
		if got := (model.Note{Meta: objects[0].Meta, Path: path}).Line(); got != want {
			t.Errorf("%q is at line %d, want %d", path, got, want)
		}
	}
}
