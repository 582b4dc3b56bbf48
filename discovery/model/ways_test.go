package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestWays(t *testing.T) {
	objects, problems := config.Decode("mesh.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: shop}
spec: {hosts: [a.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: r, namespace: shop}
spec:
  hosts: [a.test]
  http:
  - match: [{uri: {prefix: /x}, headers: {h: {exact: v}}}, {method: {regex: "P.*"}, queryParams: {q: {}}}]
    route: [{destination: {host: a.test, subset: v1}, weight: 30}, {destination: {host: b.test, port: {number: 81}}, weight: 10}]
  - match: [{uri: {exact: /old}}]
    redirect: {uri: /new}
  - directResponse: {status: 403}
  tls: [{match: [{port: 443, sniHosts: [a.test]}], route: [{destination: {host: c.test}}]}]
  tcp: [{route: [{destination: {host: d.test}}]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: other, namespace: shop}
spec: {hosts: [other.test], http: [{route: [{destination: {host: a.test}}]}]}
`))
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	m := model.New(slices.Values([]model.Group{{Objects: objects}}))
	var got []string
	for _, w := range m.Ways("a.test") {
		got = append(got, fmt.Sprintf("%s: %s|%s|%d|%s %g", w.Match, w.To, w.Subset, w.Port, w.Instead, w.Percent))
		if w.Rule.Name != "r" {
			t.Errorf("%v is of another rule", w)
		}
	}
	want := []string{
		"path /x… and header h v, or method ~ P.* and parameter q present: a.test|v1|0| 75",
		"path /x… and header h v, or method ~ P.* and parameter q present: b.test||81| 25",
		"path /old: ||0|redirect 100", ": ||0|403 100", "TLS to a.test: c.test||0| 100", "TCP: d.test||0| 100",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if host := m.HasWays(); host != "a.test" {
		t.Errorf("the first with a rule is %q", host)
	}
}
