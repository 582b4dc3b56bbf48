package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const head = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"

func TestDecode(t *testing.T) {
	rule := &networking.DestinationRule{
		Host:    "reviews",
		Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"y": "n", "on": "007"}}},
	}
	meta := model.Meta{Kind: "DestinationRule", Namespace: "default", Name: "a", Origin: model.Origin{File: "f", Line: 1}}

	for name, test := range map[string]struct {
		data string
		want []*model.Object
	}{
		"YAML; a bare y, n or on is a string": {
			head + "metadata: {name: a}\nspec:\n  host: reviews\n  subsets:\n  - {name: v1, labels: {y: n, on: '007'}}",
			[]*model.Object{{Meta: meta, Spec: rule}},
		},
		"JSON": {
			`{"apiVersion":"networking.istio.io/v1beta1","kind":"DestinationRule","metadata":{"name":"a"},` + "\n\t" +
				`"spec":{"host":"reviews","subsets":[{"name":"v1","labels":{"y":"n","on":"007"}}]}}`,
			[]*model.Object{{Meta: meta, Spec: rule}},
		},
		"anchors, aliases and merges": {
			head + "metadata: {name: a}\nspec:\n  host: &h reviews\n  subsets:\n  - name: v1\n    labels: {<<: &l {y: n, on: x}, on: '007'}\n" +
				"---\n" + head + "metadata: {name: b, labels: &m {q: r}}\n" +
				"spec: {host: &h2 b, subsets: [{name: *h2, labels: {<<: [*m, {q: s, t: u}]}}]}",
			[]*model.Object{{Meta: meta, Spec: rule}, {
				Meta: model.Meta{
					Kind: "DestinationRule", Namespace: "default", Name: "b", Labels: map[string]string{"q": "r"},
					Origin: model.Origin{File: "f", Line: 10},
				},
				Spec: &networking.DestinationRule{
					Host:    "b",
					Subsets: []*networking.Subset{{Name: "b", Labels: map[string]string{"q": "r", "t": "u"}}},
				},
			}},
		},
		"metadata": {
			head + "metadata: {name: a, namespace: b, creationTimestamp: 2026-01-02T03:04:05Z, uid: 5}\nstatus: {}\nspec: {host: reviews}",
			[]*model.Object{{
				Meta: model.Meta{
					Kind: "DestinationRule", Namespace: "b", Name: "a", Origin: model.Origin{File: "f", Line: 1},
					Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				},
				Spec: &networking.DestinationRule{Host: "reviews"},
			}},
		},
		"a List, as kubectl prints it": {
			"apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- ~\n- " + strings.ReplaceAll(head, "\n", "\n  ") +
				"metadata: {name: a}\n  spec: {host: reviews}\n---\n" +
				"{apiVersion: networking.istio.io/v1, kind: DestinationRuleList, items: [" +
				"{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: b}, spec: {host: b}}]}",
			[]*model.Object{
				{
					Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: "a", Origin: model.Origin{File: "f", Line: 6}},
					Spec: &networking.DestinationRule{Host: "reviews"},
				},
				{
					Meta: model.Meta{Kind: "DestinationRule", Namespace: "default", Name: "b", Origin: model.Origin{File: "f", Line: 11}},
					Spec: &networking.DestinationRule{Host: "b"},
				},
			},
		},
		"empty Lists":     {"{apiVersion: v1, kind: List}\n---\n{apiVersion: v1, kind: List, items: []}", nil},
		"nothing":         {"", nil},
		"empty documents": {"---\n---\n# a comment\n---\n~\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := Decode("f", []byte(test.data))
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			if diff := cmp.Diff(test.want, got, protocmp.Transform(), cmpopts.IgnoreFields(model.Origin{}, "Fields")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeProblems(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want []string
	}{
		"no YAML": {"a: b: c", []string{"f:1: error: mapping values are not allowed in this context"}},
		"one broken document says nothing about the others": {
			"kind: A\napiVersion: b/c\n---\na: [", []string{
				"f:1: warning: A: A of b/c is not supported, ignored",
				"f:4: error: did not find expected node content",
			},
		},
		"not an object": {"- a", []string{
			"f:1: error: is a list, want an object", "f:1: error: apiVersion: is missing",
			"f:1: error: kind: is missing", "f:1: error: metadata.name: is missing",
		}},
		"names of our group are suggested": {
			"apiVersion: networking.istio.io/v1\nkind: VirtualServices\nmetadata: {name: a}",
			[]string{`f:2: error: VirtualServices default/a: kind: is "VirtualServices", did you mean VirtualService?`},
		},
		"a List's items are objects, and each fault has its line": {
			"apiVersion: v1\nkind: List\nitems:\n- 5\n- " + strings.ReplaceAll(head, "\n",
				"\n  ") + "metadata: {name: a}\n  spec: {hosts: a}\n" +
				"- {apiVersion: v1, kind: List}",
			[]string{
				"f:4: error: is 5, want an object", "f:4: error: apiVersion: is missing",
				"f:4: error: kind: is missing", "f:4: error: metadata.name: is missing",
				`f:8: error: DestinationRule default/a: spec.hosts: unknown field "hosts", did you mean "host"?`,
				"f:9: warning: List: List of v1 is not supported, ignored",
			},
		},
		"a List of no list": {
			"apiVersion: v1\nkind: List\nitems: 5", []string{
				"f:3: error: is 5, want an object", "f:3: error: apiVersion: is missing",
				"f:3: error: kind: is missing", "f:3: error: metadata.name: is missing",
			},
		},
		"a number in quotes, which no API server takes": {
			head + "metadata: {name: a}\nspec:\n  host: a\n  trafficPolicy:\n    outlierDetection:\n      consecutive5xxErrors: '5'\n" +
				"    connectionPool: {tcp: {maxConnections: \"5\"}}",
			[]string{
				`f:8: error: DestinationRule default/a: spec.trafficPolicy.outlierDetection.consecutive5xxErrors: is "5", want a whole number, not negative`,
				`f:9: error: DestinationRule default/a: spec.trafficPolicy.connectionPool.tcp.maxConnections: is "5", want a whole number`,
			},
		},
		"an unknown version": {
			"apiVersion: networking.istio.io/v2\nkind: Sidecar\nmetadata: {name: a}",
			[]string{`f:1: error: Sidecar default/a: apiVersion: is "networking.istio.io/v2", want networking.istio.io/v1`},
		},
		"a group misspelt": {
			"kind: Gateway\nmetadata: {name: a}\napiVersion: networking.istio.com/v1",
			[]string{`f:3: error: Gateway default/a: apiVersion: is "networking.istio.com/v1", want networking.istio.io/v1`},
		},
		"no group": {
			"apiVersion: v1\nkind: VirtualService\nmetadata: {name: a}",
			[]string{`f:1: error: VirtualService default/a: apiVersion: is "v1", want networking.istio.io/v1`},
		},
		"another's kind of the same name": {
			"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: a}",
			[]string{"f:1: warning: Gateway default/a: Gateway of gateway.networking.k8s.io/v1 is not supported, ignored"},
		},
		"a kind misspelt": {
			"apiVersion: networking.istio.io/v1\nkind: VirtualServce\nmetadata: {name: a}",
			[]string{`f:2: error: VirtualServce default/a: kind: is "VirtualServce", did you mean VirtualService?`},
		},
		"a kind that Istio has not": {
			"apiVersion: networking.istio.io/v1\nkind: Route\nmetadata: {name: a}",
			[]string{`f:2: error: Route default/a: kind: is "Route", want one of DestinationRule, Gateway, PeerAuthentication, ProxyConfig, ServiceEntry, Sidecar, ` +
				`VirtualService, WorkloadEntry, WorkloadGroup, AuthorizationPolicy, RequestAuthentication`},
		},
		"a ProxyConfig": {
			"apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\nmetadata: {name: a}\nspec: {selector: {matchLabels: {a b: c}}, " +
				"concurrency: -1, environmentVariables: {1a: b, A: c}, image: {imageType: \"a b\"}}",
			[]string{
				`f:4: error: ProxyConfig default/a: spec.selector.matchLabels["a b"]: the label's name is "a b", want letters, digits, '-', '_' and '.', at most 63`,
				`f:4: error: ProxyConfig default/a: spec.concurrency: is -1, want 0 or more`,
				`f:4: error: ProxyConfig default/a: spec.environmentVariables.1a: the variable's name is "1a", want letters, digits, '_', '-' and '.', no digit first`,
				`f:4: error: ProxyConfig default/a: spec.image.imageType: is "a b", want default, debug, distroless or another end of an image's tag`,
			},
		},
		"a ProxyConfig of another version": {
			"apiVersion: networking.istio.io/v1\nkind: ProxyConfig\nmetadata: {name: a}",
			[]string{`f:1: error: ProxyConfig default/a: apiVersion: is "networking.istio.io/v1", want networking.istio.io/v1beta1`},
		},
		"a kind that is not served": {
			"apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: a}",
			[]string{"f:1: warning: EnvoyFilter default/a: EnvoyFilter of networking.istio.io/v1alpha3 is not supported, ignored"},
		},
		"a RequestAuthentication that asks nothing": {
			"apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: a}\nspec: {}",
			[]string{"f:4: warning: RequestAuthentication default/a: spec.jwtRules: is missing: no token is looked at"},
		},
		"two of what one may be given, durations and numbers of no name": {
			"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  hosts: [a]\n  http:\n" +
				"  - match:\n    - uri:\n        prefix: /a\n        exact: /b\n    timeout: 5sec\n    retries: {attempts: 1, perTryTimeout: 1d, backoff: \"3\"}\n" +
				"    redirect: {derivePort: 7}\n",
			[]string{
				`f:10: error: VirtualService default/a: spec.http[0].match[0].uri.exact: is given beside another, want one of exact, prefix, regex`,
				`f:11: error: VirtualService default/a: spec.http[0].timeout: is "5sec", want a duration such as 1.5s or 200ms`,
				`f:12: error: VirtualService default/a: spec.http[0].retries.perTryTimeout: is "1d", want a duration such as 1.5s or 200ms`,
				`f:12: error: VirtualService default/a: spec.http[0].retries.backoff: is "3", want a duration such as 1.5s or 200ms`,
				`f:13: error: VirtualService default/a: spec.http[0].redirect.derivePort: is 7, want one of FROM_PROTOCOL_DEFAULT, FROM_REQUEST_PORT`,
			},
		},
		"another group's object may have any form": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\ndata: {a: b}",
			[]string{"f:1: warning: ConfigMap: ConfigMap of v1 is not supported, ignored"},
		},
		"metadata": {
			head + "metadata:\n  name: A B\n  namespace: 5\n  creationTimestamp: today\nspec: {host: a}\nspecs: {}\nkind: Sidecar",
			[]string{
				`f:4: error: DestinationRule: metadata.name: is "A B", want lower-case letters, digits, '-' and '.', at most 253`,
				`f:5: error: DestinationRule: metadata.namespace: is 5, want a string`,
				`f:6: error: DestinationRule: metadata.creationTimestamp: is "today", want a time such as 2026-01-31T12:00:00Z`,
				`f:8: error: DestinationRule: specs: unknown field "specs", did you mean "spec"?`,
				`f:9: error: DestinationRule: kind: is given already at line 2`,
			},
		},
		"a spec of the wrong form": {
			head + "metadata: {name: a}\nspec:\n- host: a",
			[]string{"f:4: error: DestinationRule default/a: spec: is a list, want an object"},
		},
		"every wrong value and unknown field at once, each on its line": {
			head + "metadata: {name: a}\nspec:\n  host: 5\n  trafficPolicy:\n    loadBalancer:\n      simple: ROUNDROBIN\n" +
				"  traficPolicy: {}\n  subsets:\n  - name: >\n      v1\n    label:\n      a: b\n  - labels: [a]\n  - 7\n  - name: [v2]\n" +
				"    name: v3\n    trafficPolicy: {loadBalancer: {warmup: {minimumPercent: x, aggression: {}}}}\n",
			[]string{
				`f:5: error: DestinationRule default/a: spec.host: is 5, want a string`,
				`f:8: error: DestinationRule default/a: spec.trafficPolicy.loadBalancer.simple: is "ROUNDROBIN", ` +
					`want one of UNSPECIFIED, LEAST_CONN, RANDOM, PASSTHROUGH, ROUND_ROBIN, LEAST_REQUEST`,
				`f:9: error: DestinationRule default/a: spec.traficPolicy: unknown field "traficPolicy", did you mean "trafficPolicy"?`,
				`f:13: error: DestinationRule default/a: spec.subsets[0].label: unknown field "label", did you mean "labels"?`,
				`f:15: error: DestinationRule default/a: spec.subsets[1].labels: is a list, want an object`,
				`f:16: error: DestinationRule default/a: spec.subsets[2]: is 7, want an object`,
				`f:17: error: DestinationRule default/a: spec.subsets[3].name: is a list, want a string`,
				`f:19: error: DestinationRule default/a: spec.subsets[3].trafficPolicy.loadBalancer.warmup.minimumPercent: ` +
					`is "x", want a number`,
				`f:19: error: DestinationRule default/a: spec.subsets[3].trafficPolicy.loadBalancer.warmup.aggression: ` +
					`is an object, want a number`,
			},
		},
		"two of a oneof, one field twice, once in each spelling": {
			head + "metadata: {name: a}\nspec:\n  host: a\n  trafficPolicy: {}\n  traffic_policy:\n    loadBalancer:\n" +
				"      simple: RANDOM\n      consistentHash: {}\n",
			[]string{`f:7: error: DestinationRule default/a: spec.traffic_policy: duplicate field "traffic_policy"`},
		},
		"an unknown field far from any other names them all": {
			head + "metadata: {name: a}\nspec: {host: a, subsets: [{colour: red}]}",
			[]string{`f:4: error: DestinationRule default/a: spec.subsets[0].colour: unknown field "colour", ` +
				`want one of labels, name, trafficPolicy`},
		},
		"a fault below an alias has the line of the alias": {
			head + "metadata:\n  name: a\n  annotations: &x {a: b}\nspec:\n  host: a\n  subsets:\n  - name: *x\n",
			[]string{`f:9: error: DestinationRule default/a: spec.subsets[0].name: is an object, want a string`},
		},
		"the same object twice": {
			head + "metadata: {name: a}\nspec: {host: a}\n---\n" + head + "metadata: {name: a}\nspec: {host: b}\n",
			[]string{"f:6: error: DestinationRule default/a: is declared already at f:1"},
		},
		"an object with an error does not claim its name": {
			head + "metadata: {name: a}\nspec: {}\n---\n" + head + "metadata: {name: a}\nspec: {host: b}\n",
			[]string{"f:4: error: DestinationRule default/a: spec.host: is missing"},
		},
		"a key that is no string": {
			head + "metadata: {name: a}\nspec: {host: a, ? [b] : c}",
			[]string{"f:4: error: DestinationRule default/a: a key is a list, want a string"},
		},
		"a merge of no object": {
			head + "metadata: {name: a}\nspec: {host: a, <<: b}",
			[]string{`f:4: error: DestinationRule default/a: << merges "b", want an object`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f", []byte(test.data))
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Istio reads durations as Go does, protobuf's JSON only in seconds.
func TestDecodeDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10s": 10 * time.Second, "500ms": 500 * time.Millisecond, "1m30s": 90 * time.Second, "0.25s": 250 * time.Millisecond,
	} {
		objects, problems := Decode("f", object("VirtualService",
			"hosts: [a]\nhttp: [{timeout: "+text+", route: [{destination: {host: a}}]}]"))
		if len(objects) != 1 {
			t.Fatalf("%s: %v", text, problems)
		}
		got := objects[0].Spec.(*networking.VirtualService).Http[0].Timeout
		if diff := cmp.Diff(durationpb.New(want), got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A few lines can expand to more nodes than there is memory for, or to an unlimited number.
func TestDecodeBoundsAliases(t *testing.T) {
	bomb := func(format, last string) string {
		b := strings.Builder{}
		b.WriteString(head + "metadata: {name: a}\nspec:\n  l0: &l0 " + last + "\n")
		for i := range 30 {
			alias := fmt.Sprintf("*l%d", i)
			fmt.Fprintf(&b, "  l%d: &l%d "+format+"\n", i+1, i+1, strings.Repeat(alias+",", 9)+alias)
		}
		b.WriteString("  subsets: *l30\n  host: a\n")
		return b.String()
	}
	for name, test := range map[string]struct{ data, want string }{
		"lists":         {bomb("[%s]", "[a]"), "aliases expand to more than"},
		"merges":        {bomb("{<<: [%s]}", "{a: b}"), "aliases expand to more than"},
		"long texts":    {bomb("[%s]", strings.Repeat("a", 100_000)), "aliases expand to more than"},
		"a cycle":       {head + "metadata: {name: a}\nspec:\n  subsets: &s [*s, *s]", "is nested deeper than 100 levels"},
		"a merge cycle": {head + "metadata: {name: a}\nspec: &s\n  <<: *s", "is nested deeper than 100 levels"},
		"a deep list": {head + "metadata: {name: a}\nspec: {subsets: " + strings.Repeat("[",
			5000) + strings.Repeat("]", 5000) + "}", "is nested deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f", []byte(test.data))
			for _, p := range problems {
				if strings.Contains(p.Message, test.want) {
					return
				}
			}
			t.Errorf("problems %.300v, want one that says %q", problems, test.want)
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(head + "metadata: {name: a}\nspec: {host: a, subsets: [{name: v1, labels: {<<: &a {b: c}, d: e}}]}"))
	f.Add(object("VirtualService", "hosts: [a]\nhttp:\n- match: [{headers: {y: {regex: \"*\"}}}]\n  timeout: 5"))
	f.Add(object("ServiceEntry", "hosts: [a]\nports: [{number: 0x50, name: |\n  a\n}]\nendpoints: [{ports: {a: 1}}]"))
	f.Add(object("Sidecar", "ingress: [{port: {number: 1e3}, defaultEndpoint: unix:///a}]\n---\n? a\n: b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, problems := Decode("f", data)
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") +
			strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines {
				t.Errorf("%v: the file has %d lines", p, lines)
			}
		}
		for _, o := range objects {
			if o.Name == "" || o.Spec == nil || o.Origin.Line < 1 || o.Origin.Line > lines {
				t.Errorf("half an object: %+v", o)
			}
		}
		splitChangesNothing(t, data, objects)
		fastDecoderAgrees(t, data)
	})
}

// splitChangesNothing reads valid data as one stream: the same objects are at the same lines.
func splitChangesNothing(t *testing.T, data []byte, want []*model.Object) {
	t.Helper()
	known := map[string]bool{}
	var got []*model.Object
	for _, i := range Read(data) {
		if len(i.Problems) > 0 && i.Key == "" {
			return // one stream ends at its first fault, and an anchor of one document is valid in the next one
		}
		if i.Object != nil && !known[i.Key] {
			known[i.Key] = true
			got = append(got, i.At("f", 1).Object)
		}
	}
	if diff := cmp.Diff(got, want, protocmp.Transform()); diff != "" {
		t.Errorf("as one stream and by document (-stream +documents):\n%s", diff)
	}
}
