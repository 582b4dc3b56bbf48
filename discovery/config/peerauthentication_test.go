package config

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	security "istio.io/api/security/v1beta1"
)

const (
	peerHead  = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: a, namespace: shop}\n"
	strictAll = `{"mtls":{"mode":"STRICT"}}`
	strictAny = `{"selector":{},"mtls":{"mode":"STRICT"}}` // for each workload of the namespace, before the namespace's own
	strictWeb = `{"selector":{"matchLabels":{"app":"web"}},"mtls":{"mode":"STRICT"}}`
)

// A policy is read as it is written, or refused with the place of its fault; what stands for a refused one is STRICT for all that
// it may have named.
func TestPeerAuthentication(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		read   string // as JSON
		fault  string // the beginning of the only error, without the object
		closed string
	}{
		"the mesh's default": {text: "spec: {}", read: `{}`},
		"no spec":            {text: "", read: `{}`},
		"a mode":             {text: "spec: {mtls: {mode: STRICT}}", read: strictAll},
		"a port": {
			text: "spec: {selector: {matchLabels: {app: web}}, mtls: {mode: UNSET}, portLevelMtls: {8080: {mode: DISABLE}}}",
			read: `{"selector":{"matchLabels":{"app":"web"}},"mtls":{},"portLevelMtls":{"8080":{"mode":"DISABLE"}}}`,
		},
		"a number of a mode":           {text: "spec: {mtls: {mode: 3}}", read: strictAll},
		"a mode that is not known":     {text: "spec: {mtls: {mode: STRIKT}}", fault: `spec.mtls.mode: is "STRIKT", want one of UNSET`, closed: strictAll},
		"a number that is not known":   {text: "spec: {mtls: {mode: 4}}", fault: `spec.mtls.mode: is 4`, closed: strictAll},
		"a mode without its field":     {text: "spec: {mtls: STRICT}", fault: `spec.mtls: is "STRICT", want an object`, closed: strictAll},
		"a field that is not known":    {text: "spec: {mtlss: {mode: PERMISSIVE}}", fault: `spec.mtlss: unknown field "mtlss"`, closed: strictAll},
		"a port of the whole mesh":     {text: "spec: {portLevelMtls: {80: {mode: STRICT}}}", fault: `spec.portLevelMtls: is given without a selector`, closed: strictAny},
		"ports without one":            {text: "spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {}}", fault: `spec.portLevelMtls: has no port`, closed: strictWeb},
		"port 0":                       {text: "spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {0: {}}}", fault: `spec.portLevelMtls.0: the port is 0, want 1 to 65535`, closed: strictWeb},
		"a port above all":             {text: "spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {65536: {}}}", fault: `spec.portLevelMtls.65536: the port is 65536`, closed: strictWeb},
		"a port that is a name":        {text: "spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {http: {}}}", fault: `spec.portLevelMtls`, closed: strictWeb},
		"a mode of a port":             {text: "spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {80: {mode: X}}}", fault: `spec.portLevelMtls.80.mode: is "X"`, closed: strictWeb},
		"a selector with a wildcard":   {text: "spec: {selector: {matchLabels: {app: w*}}, mtls: {mode: PERMISSIVE}}", fault: `spec.selector.matchLabels.app: is "app=w*", want a label without a wildcard`, closed: strictAny},
		"a selector that is not known": {text: "spec: {selecter: {matchLabels: {app: web}}}", fault: `spec.selecter: unknown field "selecter", did you mean "selector"?`, closed: strictAny},
		"a wildcard beside a mode":     {text: "spec: {selector: {matchLabels: {app: w*}}, mtls: {mode: STRIKT}}", fault: `spec.mtls.mode: is "STRIKT"`, closed: strictAny},
		"a label beside a mode":        {text: "spec: {selector: {matchLabels: {app: 'a b'}}, portLevelMtls: {80: {mode: X}}}", fault: `spec.portLevelMtls.80.mode: is "X"`, closed: strictAny},
		"labels of a wrong form":       {text: "spec: {selector: {matchLabels: [app]}}", fault: `spec.selector.matchLabels: is a list`, closed: strictAny},
	} {
		t.Run(name, func(t *testing.T) {
			items := Read([]byte(peerHead + test.text))
			if len(items) != 1 || items[0].Key != "PeerAuthentication/shop/a" {
				t.Fatalf("it is read as %+v", items)
			}
			item, object := items[0], items[0].Object
			if test.fault != "" {
				object = item.Closed
			}
			var faults []string
			for _, p := range item.Problems {
				if p.Severity == Error {
					faults = append(faults, p.Path+": "+p.Message)
				}
			}
			switch {
			case test.fault == "" && (len(faults) > 0 || item.Object == nil || item.Closed != nil):
				t.Fatalf("it is refused: %q", faults)
			case test.fault != "" && (item.Object != nil || item.Closed == nil || !item.Closed.Closed || !strings.HasPrefix(faults[0], test.fault)):
				t.Fatalf("its faults are %q, want %s; what stands for it is %+v", faults, test.fault, item.Closed)
			}
			want := &security.PeerAuthentication{}
			if err := protojson.Unmarshal([]byte(test.read+test.closed), want); err != nil {
				t.Fatal(err)
			}
			if got := object.Spec.(*security.PeerAuthentication); got.String() != want.String() {
				t.Errorf("it is %v, want %v", got, want)
			}
		})
	}
}

// A selector that selects everything is served, with a warning, as Istio's webhook does.
func TestPeerAuthenticationWithoutLabels(t *testing.T) {
	for _, selector := range []string{"{}", "{matchLabels: {}}"} {
		items := Read([]byte(peerHead + "spec: {selector: " + selector + ", mtls: {mode: STRICT}}"))
		if len(items) != 1 || items[0].Object == nil || len(items[0].Problems) != 1 {
			t.Fatalf("%s: it is read as %+v", selector, items)
		}
		if p := items[0].Problems[0]; p.Severity != Warning || p.Path != "spec.selector" || !strings.HasPrefix(p.Message, "has no labels") {
			t.Errorf("%s: the problem is %+v", selector, p)
		}
	}
}

// A misspelt kind, group or version of a policy is no reason to let everybody in.
func TestMisspeltPolicies(t *testing.T) {
	for head, fault := range map[string]string{
		"apiVersion: security.istio.io/v1\nkind: PeerAuthentcation\n":        `is "PeerAuthentcation", did you mean PeerAuthentication?`,
		"apiVersion: security.istio.io/v1alpha1\nkind: PeerAuthentication\n": `is "security.istio.io/v1alpha1", want security.istio.io/v1`,
		"apiVersion: networking.istio.io/v1\nkind: PeerAuthentication\n":     `is "networking.istio.io/v1", want security.istio.io/v1`,
		"apiVersion: secrity.istio.io/v1\nkind: PeerAuthentication\n":        `is "secrity.istio.io/v1", want security.istio.io/v1`,
	} {
		items := Read([]byte(head + "metadata: {name: a, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, mtls: {mode: PERMISSIVE}}"))
		if len(items) != 1 || len(items[0].Problems) != 1 || items[0].Problems[0].Message != fault {
			t.Errorf("%s is read as %+v", head, items)
			continue
		}
		o := items[0].Closed
		if o == nil || o.Key() != "PeerAuthentication/shop/a" || o.Spec.(*security.PeerAuthentication).Mtls.Mode != security.PeerAuthentication_MutualTLS_STRICT ||
			o.Spec.(*security.PeerAuthentication).Selector.GetMatchLabels()["app"] != "web" {
			t.Errorf("for %s stands %+v", head, o)
		}
	}
}
