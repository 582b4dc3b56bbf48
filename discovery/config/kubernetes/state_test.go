package kubernetes

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// cluster is a state, with the watches of objects that it follows, by resource, version and namespace.
type cluster struct {
	*state
	session     *kube.Session
	t           *testing.T
	definitions map[string]*kube.Watch
	followed    map[string]*kube.Watch
}

func newCluster(t *testing.T, namespaces ...string) *cluster {
	c := &cluster{t: t, definitions: map[string]*kube.Watch{}, followed: map[string]*kube.Watch{}}
	c.session = kube.NewSession(nil, func(w *kube.Watch) func() {
		if w.Kind == "CustomResourceDefinition" {
			return func() {}
		}
		key := w.Resource.Resource + "/" + w.Resource.Version + "/" + w.Namespace
		c.followed[key] = w
		return func() { delete(c.followed, key) }
	})
	c.state = newState("c1", namespaces, c.session.Start)
	for _, r := range config.Resources() {
		c.definitions[r.Plural] = c.define(r)
		c.session.Start(c.definitions[r.Plural])
	}
	return c
}

func (c *cluster) apply(e kube.Event) { c.session.Apply(e, c.state.apply) }

func (c *cluster) complete() bool { return c.session.Listed() }

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	o := &unstructured.Unstructured{}
	if err == nil {
		err = o.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// definition returns a definition that serves these versions.
func definition(t *testing.T, established string, versions ...string) *unstructured.Unstructured {
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec:\n  versions:\n"
	for _, v := range versions {
		text += "  - {name: " + v + ", served: true, schema: {openAPIV3Schema: {type: object}}}\n"
	}
	o := parse(t, text+"  - {name: v0, served: false}\nstatus: {conditions: [{type: Established, status: \""+established+"\"}]}")
	withoutSchemas(o)
	return o
}

// take returns the keys of changed groups, with a minus before removed ones and a question mark before malformed ones.
func (c *cluster) take() (out []string) {
	for _, key := range slices.Sorted(maps.Keys(c.unsent)) {
		switch g := c.unsent[key]; {
		case g.Empty():
			key = "-" + key
		case g.Malformed():
			key = "?" + key
		}
		out = append(out, key)
	}
	c.unsent = map[string]model.Group{}
	return out
}

func (c *cluster) want(keys ...string) {
	c.t.Helper()
	if got := c.take(); !slices.Equal(got, keys) {
		c.t.Errorf("changed are %q, want %q", got, keys)
	}
}

func (c *cluster) follows(keys ...string) {
	c.t.Helper()
	if got := slices.Sorted(maps.Keys(c.followed)); !slices.Equal(got, keys) {
		c.t.Errorf("followed are %q, want %q", got, keys)
	}
}

func sidecar(t *testing.T, name, uid, generation, host string) *unstructured.Unstructured {
	return parse(t, `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: `+name+`, namespace: shop, uid: `+uid+`, generation: `+generation+`, resourceVersion: "7", creationTimestamp: 2026-01-31T12:00:00Z}
spec: {egress: [{hosts: ["`+host+`"]}]}
status: {conditions: []}`)
}

func TestKindsComeAndGo(t *testing.T) {
	c := newCluster(t)
	for _, w := range c.definitions {
		c.apply(kube.Event{Of: w, List: true})
	}
	if !c.complete() {
		t.Error("without any definition, it is not complete")
	}
	of := c.definitions["sidecars"]
	c.apply(kube.Event{Of: of, Put: definition(t, "False", "v1")})
	c.follows()
	c.apply(kube.Event{Of: of, Put: definition(t, "True", "v1alpha3", "v1beta1")})
	c.follows("sidecars/v1beta1/")
	if c.complete() {
		t.Error("without a list of Sidecars, it is complete")
	}
	old := c.followed["sidecars/v1beta1/"]
	c.apply(kube.Event{Of: old, List: true, All: []any{sidecar(t, "a", "u1", "1", "./*"), sidecar(t, "b", "u2", "1", "./*")}})
	c.want("Sidecar/shop/a", "Sidecar/shop/b")

	c.apply(kube.Event{Of: of, Put: definition(t, "True", "v1alpha3", "v1beta1", "v1")}) // a better version: nothing is removed
	c.follows("sidecars/v1/")
	c.want()
	c.apply(kube.Event{Of: old, Gone: sidecar(t, "a", "u1", "1", "./*")}) // of the watch that was stopped
	c.want()
	c.apply(kube.Event{Of: c.followed["sidecars/v1/"], List: true, All: []any{sidecar(t, "a", "u1", "1", "./*")}})
	c.want("-Sidecar/shop/b")

	c.apply(kube.Event{Of: of, Gone: definition(t, "True", "v1")})
	c.follows()
	c.want("-Sidecar/shop/a")
	if !c.complete() {
		t.Error("it waits for a kind that is gone")
	}
	if len(c.kinds) != len(c.definitions) {
		t.Errorf("there are %d watches, want %d", len(c.kinds), len(c.definitions))
	}
}

func TestObjects(t *testing.T) {
	c := newCluster(t)
	c.apply(kube.Event{Of: c.definitions["sidecars"], List: true, All: []any{definition(t, "True", "v1")}})
	w := c.followed["sidecars/v1/"]
	put := func(o *unstructured.Unstructured) { c.apply(kube.Event{Of: w, Put: o}) }
	put(sidecar(t, "a", "u1", "1", "./*"))
	group := c.unsent["Sidecar/shop/a"]
	c.want("Sidecar/shop/a")
	if o := group.Objects[0]; o.Origin.String() != "cluster c1, uid u1, generation 1, version 7" || o.Created.IsZero() || o.Namespace != "shop" {
		t.Errorf("the object is %+v, from %s", o.Meta, o.Origin)
	}
	put(sidecar(t, "a", "u1", "1", "./*")) // its status changed
	c.want()
	labelled := sidecar(t, "a", "u1", "1", "./*")
	labelled.SetLabels(map[string]string{"x": "y"})
	put(labelled)
	c.want("Sidecar/shop/a")
	put(sidecar(t, "a", "u1", "2", "nonsense"))
	if faults := c.unsent["Sidecar/shop/a"].Faults; len(faults) != 1 || !strings.HasPrefix(faults[0], "spec.egress[0].hosts[0] is ") {
		t.Errorf("the faults are %q", faults)
	}
	c.want("?Sidecar/shop/a")
	put(sidecar(t, "a", "u9", "1", "./*")) // deleted and created again
	c.want("Sidecar/shop/a")
	c.apply(kube.Event{Of: w, Gone: sidecar(t, "a", "u9", "1", "./*")})
	c.apply(kube.Event{Of: w, Gone: sidecar(t, "unknown", "u5", "1", "./*")})
	c.want("-Sidecar/shop/a")

	put(parse(t, `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: b, namespace: shop}
spec: {egress: [{port: {number: 80, name: http, protocol: HTTP, targetPort: 81}, hosts: ["./*"]}]}`))
	if got := c.unsent["Sidecar/shop/b"].Objects[0].Warnings.All(); len(got) != 1 || got[0].Path != "spec.egress[0].port.targetPort" || got[0].Message == "" {
		t.Errorf("the object has the warnings %q", got)
	}
	c.want("Sidecar/shop/b")
	if len(c.warnings) != 1 || c.warnings[0].Path != "spec.egress[0].port.targetPort" || c.warnings[0].Object != "Sidecar shop/b" {
		t.Errorf("the warnings are %v", c.warnings)
	}
}

func TestNamespacesOfObjects(t *testing.T) {
	c := newCluster(t, "shop", "bank", "shop")
	c.apply(kube.Event{Of: c.definitions["sidecars"], List: true, All: []any{definition(t, "True", "v1")}})
	c.follows("sidecars/v1/bank", "sidecars/v1/shop")
	c.apply(kube.Event{Of: c.followed["sidecars/v1/shop"], List: true, All: []any{sidecar(t, "a", "u1", "1", "./*")}})
	c.want("Sidecar/shop/a")
	c.apply(kube.Event{Of: c.followed["sidecars/v1/bank"], List: true})
	c.want()
	c.apply(kube.Event{Of: c.followed["sidecars/v1/shop"], List: true})
	c.want("-Sidecar/shop/a")
}

// A kind that the API server refuses is a part that cannot be read: the other kinds are followed, and its last objects
// stay until it can be read again.
func TestAKindThatIsRefused(t *testing.T) {
	c := newCluster(t)
	for _, w := range c.definitions {
		c.apply(kube.Event{Of: w, List: true})
	}
	c.apply(kube.Event{Of: c.definitions["sidecars"], Put: definition(t, "True", "v1")})
	c.apply(kube.Event{Of: c.definitions["gateways"], Put: definition(t, "True", "v1")})
	sidecars, gateways := c.followed["sidecars/v1/"], c.followed["gateways/v1/"]
	if !sidecars.Optional || sidecars.Retry != retry {
		t.Errorf("the watch is %+v, want one that is tried again", sidecars)
	}
	c.apply(kube.Event{Of: sidecars, List: true, All: []any{sidecar(t, "a", "u1", "1", "./*")}})
	c.apply(kube.Event{Of: gateways, Refused: errors.New("gateways is forbidden")})
	if g := c.unsent["unread/Gateway"]; !g.Unread || !slices.Equal(g.Faults, []string{"objects of Gateway cannot be read: gateways is forbidden"}) {
		t.Errorf("a refused kind is the group %+v", g)
	}
	if c.want("Sidecar/shop/a", "?unread/Gateway"); !c.complete() {
		t.Error("it waits for a kind that is refused")
	}
	c.apply(kube.Event{Of: sidecars, Refused: errors.New("sidecars is forbidden")})
	c.want("?unread/Sidecar")
	c.apply(kube.Event{Of: gateways, List: true})
	c.want("-unread/Gateway")
	c.apply(kube.Event{Of: sidecars, List: true, All: []any{sidecar(t, "b", "u2", "1", "./*")}})
	c.want("-Sidecar/shop/a", "Sidecar/shop/b", "-unread/Sidecar")
}
