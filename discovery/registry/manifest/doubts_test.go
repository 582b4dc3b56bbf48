package manifest

import (
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// Objects that are served, and that do not do what they seem to, have a warning.
func TestDoubts(t *testing.T) {
	const deployment = `{kind: Deployment, apiVersion: apps/v1, metadata: {name: d, namespace: n}, spec: {template: {metadata: {labels: {app: d}}, spec: {containers: []}}}}`
	service := func(name, port string) string {
		return `{kind: Service, apiVersion: v1, metadata: {name: ` + name + `, namespace: n}, spec: {selector: {app: d}, ports: [` + port + `]}}`
	}
	external := func(port string) string {
		return `{kind: Service, apiVersion: v1, metadata: {name: e, namespace: n}, spec: {type: ExternalName, externalName: e.example, ports: [` + port + `]}}`
	}
	of := func(kind, version, field string) string {
		return `{kind: ` + kind + `, apiVersion: ` + version + `, metadata: {name: o, namespace: n, ` + field + `}}`
	}
	namespace := func(labels string) string {
		return `{kind: Namespace, apiVersion: v1, metadata: {name: o, labels: {` + labels + `}}}`
	}
	for name, test := range map[string]struct {
		text, want string // a part of the only warning
	}{
		"a namespace's label":             {namespace("istio-injection: enabled"), ""},
		"two labels":                      {namespace("istio-injection: enabled, istio.io/rev: canary"), `Namespace o: metadata.labels: istio-injection is "enabled", so that istio.io/rev`},
		"a label beside disabled":         {namespace("istio-injection: disabled, istio.io/rev: canary"), ""},
		"ambient mode":                    {namespace("istio.io/dataplane-mode: ambient"), "there is no ambient mode"},
		"a name with https":               {external("{name: https, port: 443}"), ""},
		"a name without a protocol":       {external("{name: web, port: 443}"), "names no protocol"},
		"a name of TCP":                   {external("{name: tcp-db, port: 5432}"), "every connection to port 5432"},
		"a name of UDP":                   {external("{name: dns, port: 5353, protocol: UDP}"), ""},
		"one protocol":                    {deployment + "\n---\n" + service("a", "{name: http, port: 80}") + "\n---\n" + service("b", "{name: http-b, port: 80}"), ""},
		"two protocols":                   {deployment + "\n---\n" + service("a", "{name: http, port: 80}") + "\n---\n" + service("b", "{name: tcp, port: 81, targetPort: 80}"), "Deployment n/d: : Services a and b also select its Pods at port 80, as HTTP and TCP"},
		"an annotation of Pods":           {of("Pod", "v1", `annotations: {sidecar.istio.io/proxyCPU: "1"}`), ""},
		"of Pods, on a Deployment":        {of("Deployment", "apps/v1", `annotations: {sidecar.istio.io/proxyCPU: "1"}`), "want it in spec.template.metadata"},
		"of Pods, on a Service":           {of("Service", "v1", `annotations: {proxy.istio.io/config: "{}"}`), "want it on Pods"},
		"an annotation of Services":       {of("Service", "v1", `annotations: {networking.istio.io/exportTo: "."}`), ""},
		"an unknown one of Services":      {of("Service", "v1", `annotations: {networking.istio.io/exportsTo: "."}`), "want networking.istio.io/exportTo"},
		"an annotation of another domain": {of("Service", "v1", `annotations: {example.com/x: "."}`), ""},
		"the class of an Ingress":         {of("Service", "v1", `annotations: {kubernetes.io/ingress.class: istio}`), "want it on an Ingress"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			m := New("", nil)
			objects, problems := config.Decode("", []byte(test.text))
			for _, o := range objects {
				problems = append(problems, m.Put(o)...)
			}
			_, found := m.Changes()
			problems = append(problems, found...)
			for _, p := range problems {
				got = append(got, p.Object+": "+p.Path+": "+p.Message)
			}
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
