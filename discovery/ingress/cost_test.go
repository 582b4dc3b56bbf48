package ingress

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// many returns a Table with 2,000 Ingresses of 50 namespaces, each with a host of its own, a certificate, 5 paths and a
// Service, and the function that makes such an Ingress in a further form.
func many() (*Table, func(n, form int) *networkingv1.Ingress) {
	class, prefix := "pilotlight", networkingv1.PathTypePrefix
	of := func(n, form int) *networkingv1.Ingress {
		name := Name{fmt.Sprint("ns-", n%50), fmt.Sprint("web-", n)}
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Spec: networkingv1.IngressSpec{
			IngressClassName: &class, TLS: []networkingv1.IngressTLS{{SecretName: name.Name}},
		}}
		var paths []networkingv1.HTTPIngressPath
		for p := range 5 {
			paths = append(paths, networkingv1.HTTPIngressPath{Path: fmt.Sprintf("/%d/%d", form, p), PathType: &prefix, Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: name.Name, Port: networkingv1.ServiceBackendPort{Number: 80}},
			}})
		}
		i.Spec.Rules = []networkingv1.IngressRule{{Host: name.Name + ".test", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: paths}}}}
		return i
	}
	table, known := New(Options{Class: "pilotlight", Proxies: "gateways"}), map[Name]string{}
	for n := range 2000 {
		i := of(n, 0)
		known[Name{i.Namespace, i.Name}] = ""
		table.Store("").Put(i, model.Origin{})
		table.Store("").Put(serviceOf(i.Namespace, i.Name, 80), model.Origin{})
	}
	table.SetSecrets(known)
	table.Changes()
	return table, of
}

func serviceOf(namespace, name string, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", p), Port: p})
	}
	return s
}

// A change translates the hosts that it affects, each once for its rules and once for its objects.
func TestCostOfAChange(t *testing.T) {
	table, of := many()
	s := table.Store("")
	without := func(i *networkingv1.Ingress) *networkingv1.Ingress {
		i.Spec.TLS = nil
		return i
	}
	elsewhere := func(i *networkingv1.Ingress) *networkingv1.Ingress {
		*i.Spec.IngressClassName = "other"
		return i
	}
	secrets := maps.Clone(table.secrets)
	for _, row := range []struct {
		name       string
		do         func()
		most, sent int
	}{
		{"nothing", func() {}, 0, 0},
		{"an equal Ingress", func() { s.Put(of(7, 0), model.Origin{}) }, 0, 0},
		{"a path", func() { s.Put(of(7, 1), model.Origin{}) }, 2, 1},
		{"a certificate", func() { s.Put(without(of(7, 1)), model.Origin{}) }, 2, 2},
		{"a Service's ports", func() { s.Put(serviceOf("ns-8", "web-8", 81), model.Origin{}) }, 2, 2},
		{"a Service that nobody names", func() { s.Put(serviceOf("ns-8", "other", 81), model.Origin{}) }, 0, 0},
		{"a Service of another store", func() { table.Store("b").Put(serviceOf("ns-8", "web-8", 80), model.Origin{}) }, 2, 2},
		{"a Secret", func() { secrets[Name{"ns-9", "web-9"}] = "is not there"; table.SetSecrets(secrets) }, 2, 3},
		{"another IngressClass", func() {
			s.Put(&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, model.Origin{})
		}, 0, 0},
		{"an Ingress of another class", func() { s.Put(elsewhere(of(2001, 0)), model.Origin{}) }, 0, 0},
		{"its class becomes ours", func() {
			s.Put(&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: networkingv1.IngressClassSpec{Controller: Controller}}, model.Origin{})
		}, 2, 2},
		{"a new Ingress", func() { s.Put(of(2000, 0), model.Origin{}) }, 2, 2},
		{"a deleted Ingress", func() { s.Delete(of(11, 0)) }, 2, 2},
		{"a list of all", func() {
			s.Keep(&networkingv1.Ingress{}, func(Name) bool { return true })
			s.Keep(&corev1.Service{}, func(Name) bool { return true })
		}, 0, 0},
	} {
		before := table.translated
		row.do()
		sent := table.Changes()
		if got := table.translated - before; got > row.most {
			t.Errorf("%s: %d translations, want at most %d", row.name, got, row.most)
		}
		if len(sent) != row.sent {
			t.Errorf("%s: %d groups are sent, want %d: %v", row.name, len(sent), row.sent, slices.Sorted(maps.Keys(sent)))
		}
	}
}

// editor makes random edits of a Table, and the same of the objects from which another one can be made.
type editor struct {
	table   *Table
	objects map[string]func(*Table) // by store, kind and name
	secrets map[Name]string
	groups  map[string]model.Group // as a receiver of all changes has them
	pick    func(n int) int
}

func newEditor(pick func(n int) int) *editor {
	return &editor{New(edited), map[string]func(*Table){}, map[Name]string{}, map[string]model.Group{}, pick}
}

var edited = Options{Class: "pilotlight", Proxies: "gateways", Selector: map[string]string{"istio": "ingress"}}

func (e *editor) of(values ...string) string { return values[e.pick(len(values))] }

// edit changes one object, and says what it did.
func (e *editor) edit() string {
	store, gone := e.of("a", "b"), e.pick(4) == 0
	var object any
	origin, name := model.Origin{File: store, Line: e.pick(3)}, ""
	switch e.pick(8) {
	case 0:
		secret := Name{e.of("x", "y"), e.of("s", "t")}
		if delete(e.secrets, secret); !gone {
			e.secrets[secret] = e.of("", "", "is not there")
		}
		e.table.SetSecrets(e.secrets)
		return fmt.Sprint("secret ", secret, " ", gone)
	case 1:
		c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: e.of("pilotlight", "mine", "nginx"), CreationTimestamp: e.age()}}
		if c.Spec.Controller = e.of(Controller, "other"); e.pick(3) == 0 {
			c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
		}
		object, name = c, "class "+c.Name
	case 2:
		s := serviceOf(e.of("x", "y"), e.of("one", "two"), 80, int32(81+e.pick(2)))
		object, name = s, "service "+s.Namespace+"/"+s.Name
	default:
		i := e.ingress()
		object, name = i, "ingress "+i.Namespace+"/"+i.Name
	}
	if gone {
		delete(e.objects, store+name)
		e.table.Store(store).Delete(object)
	} else {
		e.objects[store+name] = func(t *Table) { t.Store(store).Put(object, origin) }
		e.table.Store(store).Put(object, origin)
	}
	return fmt.Sprint(store, " ", name, " ", gone)
}

// age is a time, equal for some objects; zero as in a file without one.
func (e *editor) age() metav1.Time {
	if e.pick(4) == 0 {
		return metav1.Time{}
	}
	return metav1.NewTime(time.Unix(int64(e.pick(4)), 0))
}

func (e *editor) ingress() *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: e.of("x", "y"), Name: e.of("i", "j", "k"), CreationTimestamp: e.age()}}
	if class := e.of("pilotlight", "pilotlight", "mine", "nginx", "pilotligth", ""); class != "" {
		i.Spec.IngressClassName = &class
	}
	host := func() string { return e.of("foo.com", "bar.foo.com", "*.foo.com", "", "http", "b_d") }
	to := func() networkingv1.IngressBackend {
		return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: e.of("one", "two", "gone"), Port: networkingv1.ServiceBackendPort{Number: int32(80 + e.pick(3))},
		}}
	}
	for range e.pick(4) {
		rule := networkingv1.IngressRule{Host: host()}
		if e.pick(5) > 0 {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{}
		}
		for range e.pick(3) {
			if kind := networkingv1.PathType(e.of("Prefix", "Exact", "Exactly")); rule.HTTP != nil {
				rule.HTTP.Paths = append(rule.HTTP.Paths, networkingv1.HTTPIngressPath{Path: e.of("/", "/a", "/a/", "/a/b", "a"), PathType: &kind, Backend: to()})
			}
		}
		i.Spec.Rules = append(i.Spec.Rules, rule)
	}
	if e.pick(3) == 0 {
		b := to()
		i.Spec.DefaultBackend = &b
	}
	for range e.pick(3) {
		tls := networkingv1.IngressTLS{SecretName: e.of("s", "t", "")}
		for range e.pick(3) {
			tls.Hosts = append(tls.Hosts, host())
		}
		i.Spec.TLS = append(i.Spec.TLS, tls)
	}
	return i
}

// check compares the Table with one that is made from scratch.
func (e *editor) check(t *testing.T, did []string) {
	t.Helper()
	for key, group := range e.table.Changes() {
		if e.groups[key] = group; group.Empty() {
			delete(e.groups, key)
		}
	}
	again := New(edited)
	for _, key := range slices.Sorted(maps.Keys(e.objects)) {
		e.objects[key](again)
	}
	again.SetSecrets(e.secrets)
	want := again.Changes()
	same := func(a, b model.Group) bool { return a.Same(b) && slices.Equal(a.Faults, b.Faults) }
	if !maps.EqualFunc(e.groups, want, same) || !maps.EqualFunc(e.table.All(), want, same) {
		for key := range want {
			if !same(e.groups[key], want[key]) {
				t.Errorf("%s is\n%v, from scratch\n%v", key, e.groups[key], want[key])
			}
		}
		for key := range e.groups {
			if _, there := want[key]; !there {
				t.Errorf("%s is left over", key)
			}
		}
		t.Fatalf("after the edits\n%s", strings.Join(did, "\n"))
	}
	for _, store := range []string{"a", "b"} {
		if !maps.Equal(e.table.Ours(store), again.Ours(store)) {
			t.Fatalf("ours are %v, from scratch %v, after\n%s", e.table.Ours(store), again.Ours(store), strings.Join(did, "\n"))
		}
	}
	if !slices.Equal(e.table.Wanted(), again.Wanted()) || !slices.EqualFunc(e.table.Faults(), again.Faults(), func(a, b Fault) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Fatalf("it wants %v, from scratch %v, after\n%s", e.table.Wanted(), again.Wanted(), strings.Join(did, "\n"))
	}
}

// After any edits a Table has what one from scratch has.
func TestEditsLikeFromScratch(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		e, did := newEditor(random.IntN), []string{fmt.Sprint("seed ", seed)}
		for range 40 {
			for range 1 + random.IntN(3) {
				did = append(did, e.edit())
			}
			e.check(t, did)
		}
		// With all Ingresses gone nothing is left.
		for _, store := range []string{"a", "b"} {
			e.table.Store(store).Keep(&networkingv1.Ingress{}, func(Name) bool { return false })
		}
		e.table.Changes()
		if i := e.table.index; len(e.table.All())+len(e.table.keys)+len(e.table.hosts)+len(e.table.uses)+len(i.hosts)+len(i.below)+len(i.services)+len(i.secrets)+
			len(i.encrypted)+len(i.unread)+len(i.routed)+len(e.table.Wanted()) > 0 {
			t.Fatalf("seed %d: something is left: %+v", seed, e.table)
		}
	}
}

func FuzzEdits(f *testing.F) {
	f.Add([]byte("a few edits of objects, whose bytes choose them"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, did := newEditor(func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		}), []string{}
		for len(data) > 0 && len(did) < 60 {
			did = append(did, e.edit())
			e.check(t, did)
		}
	})
}

func BenchmarkTranslate(b *testing.B) {
	table, of := many()
	for n := 0; b.Loop(); n++ {
		table.Store("").Put(of(n%2000, n), model.Origin{})
		table.Changes()
	}
}
