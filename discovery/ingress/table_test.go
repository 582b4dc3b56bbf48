package ingress

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// read parses an Ingress: its namespace and name, its age in seconds, and its spec in YAML.
func read(t *testing.T, name string, age int, spec string) *networkingv1.Ingress {
	t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	class := "pilotlight"
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0)),
	}, Spec: networkingv1.IngressSpec{IngressClassName: &class}}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(spec, "\t", "  ")), &i.Spec); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return i
}

// to is a path that leads to a Service.
func to(path, kind, service string) string {
	return fmt.Sprintf("{path: %q, pathType: %s, backend: {service: {name: %s, port: {number: 80}}}}", path, kind, service)
}

// rule is a rule of a host with these paths.
func rule(host string, paths ...string) string {
	return fmt.Sprintf("{host: %q, http: {paths: [%s]}}", host, strings.Join(paths, ", "))
}

func rules(rules ...string) string { return "rules: [" + strings.Join(rules, ", ") + "]" }

func withDefault(service string) string {
	return fmt.Sprintf("\ndefaultBackend: {service: {name: %s, port: {number: 80}}}", service)
}

// tableOf returns a Table with these Ingresses, and Services a, b, c, d and rest with a port web in the namespaces
// shop, bank and evil.
func tableOf(ingresses ...*networkingv1.Ingress) *Table {
	t := New(Options{Class: "pilotlight", Proxies: "gateways", Selector: map[string]string{"istio": "ingress"}})
	for _, namespace := range []string{"shop", "bank", "evil"} {
		for _, name := range []string{"a", "b", "c", "d", "rest"} {
			t.Store("").Put(&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "admin", Port: 9000}}},
			}, model.Origin{})
		}
	}
	for _, i := range ingresses {
		t.Store("").Put(i, model.Origin{Record: &model.Record{UID: i.Name}})
	}
	return t
}

// served are the objects of a table, and its faults.
type served struct {
	rules    []*model.Object
	gateways map[string]*networking.Gateway
	faults   string
}

func serve(table *Table) served { return show(table.Changes()) }

func show(groups map[string]model.Group) served {
	out := served{gateways: map[string]*networking.Gateway{}}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		for _, fault := range groups[key].Faults {
			out.faults += key + ": " + fault + "\n"
		}
		for _, o := range groups[key].Objects {
			switch spec := o.Spec.(type) {
			case *networking.VirtualService:
				out.rules = append(out.rules, o)
			case *networking.Gateway:
				out.gateways[o.Namespace+"/"+o.Name] = spec
			}
		}
	}
	return out
}

// at answers a request at a gateway as Envoy does: by the most specific host, then by its first route that matches.
func (s served) at(gateway, host, path string) string {
	var best *networking.VirtualService
	for _, o := range s.rules {
		v := o.Spec.(*networking.VirtualService)
		if gateway != "" && !slices.Contains(v.Gateways, gateway) || gateway == "" && !slices.Contains(v.Gateways, o.Namespace+"/ingress~http~") {
			continue
		}
		if (v.Hosts[0] == host || model.IsWildcard(v.Hosts[0]) && model.HostMatches(v.Hosts[0], host)) && (best == nil || len(v.Hosts[0]) > len(best.Hosts[0]) || v.Hosts[0] == host) {
			best = v
		}
	}
	for _, r := range best.GetHttp() {
		for _, m := range r.Match {
			uri := m.Uri
			if authority := m.GetAuthority().GetRegex(); authority != "" && !regexp.MustCompile("^(?:"+authority+")$").MatchString(host) {
				continue
			}
			if uri.GetExact() == path && uri.GetExact() != "" || uri.GetPrefix() != "" && strings.HasPrefix(path, uri.GetPrefix()) {
				if r.DirectResponse != nil {
					return fmt.Sprint(r.DirectResponse.Status)
				}
				d := r.Route[0].Destination
				return strings.TrimSuffix(d.Host, ".svc.cluster.local") + fmt.Sprintf(":%d", d.Port.Number)
			}
		}
	}
	return "404"
}

// The tables of Kubernetes' documentation: which path matches which request.
func TestPaths(t *testing.T) {
	for _, row := range []struct {
		paths   string // KIND PATH SERVICE, parted by commas
		request string
		want    string
	}{
		{"Prefix / a", "/any/path", "a"},
		{"Exact /foo a", "/foo", "a"},
		{"Exact /foo a", "/bar", "404"},
		{"Exact /foo a", "/foo/", "404"},
		{"Exact /foo/ a", "/foo", "404"},
		{"Exact /foo a", "/FOO", "404"},
		{"Prefix /foo a", "/foo", "a"},
		{"Prefix /foo a", "/foo/", "a"},
		{"Prefix /foo a", "/foobar", "404"},
		{"Prefix /foo/ a", "/foo", "a"},
		{"Prefix /foo/ a", "/foo/", "a"},
		{"Prefix /aaa/bb a", "/aaa/bbb", "404"},
		{"Prefix /aaa/bbb a", "/aaa/bbb", "a"},
		{"Prefix /aaa/bbb/ a", "/aaa/bbb", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbb/", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbb/ccc", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbbxyz", "404"},
		{"Prefix / a, Prefix /aaa b", "/aaa/ccc", "b"},
		{"Prefix /aaa b, Prefix / a", "/ccc", "a"},
		{"Prefix / a, Prefix /aaa b, Prefix /aaa/bbb c", "/aaa/bbb", "c"},
		{"Prefix / a, Prefix /aaa b, Prefix /aaa/bbb c", "/aaa/b", "b"},
		{"Prefix /foo a, Exact /foo b", "/foo", "b"},
		{"Prefix /foo a, Exact /foo b", "/foo/", "a"},
		{"Prefix /foo/bar a, Exact /foo b", "/foo/bar", "a"},
		{"Exact /foo/ a, Prefix /foo b", "/foo/", "a"},
		{"ImplementationSpecific /foo a", "/foo/bar", "a"},
		{"ImplementationSpecific /foo/* a", "/foo/bar", "a"},
		{"ImplementationSpecific /foo/* a", "/foo", "a"},
		{"ImplementationSpecific /* a", "/foo", "a"},
		{"Prefix /foo.bar a", "/fooxbar", "404"},
	} {
		var paths []string
		for text := range strings.SplitSeq(row.paths, ", ") {
			f := strings.Fields(text)
			paths = append(paths, to(f[1], f[0], f[2]))
		}
		s := serve(tableOf(read(t, "shop/web", 0, rules(rule("foo.com", paths...)))))
		want := row.want
		if want != "404" {
			want += ".shop:80"
		}
		if got := s.at("", "foo.com", row.request); got != want || s.faults != "" {
			t.Errorf("%s: %s goes to %s, want %s\n%s", row.paths, row.request, got, want, s.faults)
		}
	}
}

// The most specific host gets a request; a star is one label.
func TestHosts(t *testing.T) {
	s := serve(tableOf(
		read(t, "shop/web", 2, rules(
			rule("*.foo.com", to("/", "Prefix", "a")), rule("bar.foo.com", to("/bar", "Prefix", "b")), rule("", to("/all", "Prefix", "c")),
			rule("UPPER.com", to("/", "Prefix", "d")))),
		read(t, "shop/rest", 1, "defaultBackend: {service: {name: rest, port: {name: admin}}}"),
	))
	for request, want := range map[string]string{
		"x.foo.com/": "a.shop:80", "foo.com/": "rest.shop:9000", "x.y.foo.com/": "rest.shop:9000", "x.y.foo.com/all": "c.shop:80", "X.foo.com/": "a.shop:80",
		"bar.foo.com/bar": "b.shop:80", "bar.foo.com/": "rest.shop:9000", "bar.foo.com/all": "rest.shop:9000", "other.com/all/1": "c.shop:80",
		"other.com/": "rest.shop:9000", "upper.com/": "d.shop:80",
	} {
		host, path, _ := strings.Cut(request, "/")
		if got := s.at("", host, "/"+path); got != want {
			t.Errorf("%s goes to %s, want %s", request, got, want)
		}
	}
	if s.faults != "" {
		t.Error(s.faults)
	}
}

// Ingresses of one host in one namespace are merged; of two with the same path the older one is used, and the other is
// reported.
func TestMerge(t *testing.T) {
	table := tableOf(
		read(t, "shop/young", 1, rules(rule("foo.com", to("/", "Prefix", "b"), to("/young", "Exact", "b")))+withDefault("c")),
		read(t, "shop/old", 2, rules(rule("foo.com", to("/", "Prefix", "a"), to("/old/long/path", "Prefix", "a")))),
	)
	s := serve(table)
	for path, want := range map[string]string{"/": "a.shop:80", "/x": "a.shop:80", "/young": "b.shop:80", "/old/long/path": "a.shop:80"} {
		if got := s.at("", "foo.com", path); got != want {
			t.Errorf("%s goes to %s, want %s", path, got, want)
		}
	}
	want := "Ingress/shop/young: spec.rules[0].http.paths[0].path \"/\" of foo.com is not served: Ingress shop/old has it in spec.rules[0].http.paths[0]\n"
	if s.faults != want {
		t.Errorf("the faults are %s, want %s", s.faults, want)
	}
	if again := table.Changes(); len(again) > 0 {
		t.Errorf("nothing changed, and it tells %v", again)
	}
	table.Store("").Delete(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}})
	if s := serve(table); s.faults != "" || s.at("", "foo.com", "/x") != "b.shop:80" {
		t.Errorf("without the older one: %+v", s)
	}
}

// A tenant cannot use another namespace's host: no path, no name below its wildcard, no certificate.
func TestHostileTenant(t *testing.T) {
	table := tableOf(
		read(t, "shop/web", 9, rules(rule("foo.com", to("/", "Prefix", "a")), rule("*.bar.com", to("/", "Prefix", "a")))+
			"\ntls: [{hosts: [foo.com, '*.bar.com'], secretName: cert}]"),
		read(t, "evil/web", 1, rules(rule("foo.com", to("/login", "Exact", "b")), rule("x.bar.com", to("/", "Prefix", "b")), rule("mine.com", to("/", "Prefix", "b")))+
			"\ntls: [{hosts: [foo.com, y.bar.com], secretName: stolen}, {hosts: [mine.com], secretName: cert}]"+withDefault("c")),
		read(t, "bank/web", 0, rules(rule("*.mine.com", to("/", "Prefix", "d")))),
		read(t, "evil/sub", 0, rules(rule("www.mine.com", to("/", "Prefix", "d")))),
	)
	serve(table)
	if want := "[evil/cert shop/cert]"; fmt.Sprint(table.Wanted()) != want {
		t.Errorf("it wants the Secrets %v, want %s", table.Wanted(), want)
	}
	table.SetSecrets(map[Name]string{{"shop", "cert"}: "", {"evil", "cert"}: ""})
	table.Changes()
	s := show(table.All())
	for request, want := range map[string]string{
		"foo.com/login": "a.shop:80", "x.bar.com/": "a.shop:80", "mine.com/": "b.evil:80", "other.com/": "404", "www.mine.com/": "d.bank:80",
	} {
		host, path, _ := strings.Cut(request, "/")
		if got := s.at("", host, "/"+path); got != want {
			t.Errorf("%s goes to %s, want %s", request, got, want)
		}
	}
	for _, want := range []string{
		`Ingress/evil/web: spec.rules[0].host is "foo.com", which belongs to namespace shop: Ingress shop/web named it`,
		`Ingress/evil/web: spec.rules[1].host is "x.bar.com", which belongs to namespace shop`,
		`Ingress/evil/web: spec.tls[0].hosts[0] is "foo.com", which belongs to namespace shop`,
		`Ingress/evil/web: spec.tls[0].hosts[1] is "y.bar.com", which belongs to namespace shop`,
		`Ingress/evil/sub: spec.rules[0].host is "www.mine.com", which belongs to namespace bank`,
	} {
		if !strings.Contains(s.faults, want) {
			t.Errorf("the faults lack %q:\n%s", want, s.faults)
		}
	}
	for name, want := range map[string]string{
		"shop/ingress~foo.com": "kubernetes-ingress://shop/cert", "shop/ingress~*.bar.com": "kubernetes-ingress://shop/cert",
		"evil/ingress~mine.com": "kubernetes-ingress://evil/cert", "evil/ingress~foo.com": "",
	} {
		var got string
		if g := s.gateways[name]; g != nil {
			got = g.Servers[0].Tls.CredentialName
			if namespace, _, _ := strings.Cut(name, "/"); !strings.HasPrefix(g.Servers[0].Hosts[0], namespace+"/") {
				t.Errorf("%s takes the rules of every namespace: %v", name, g.Servers[0].Hosts)
			}
		}
		if got != want {
			t.Errorf("%s serves %q, want %q", name, got, want)
		}
	}
	for _, o := range s.rules {
		if v := o.Spec.(*networking.VirtualService); !slices.Equal(v.ExportTo, []string{"gateways"}) {
			t.Errorf("%s is for %v", o.Name, v.ExportTo)
		}
	}
}

// Under TLS the rules of the same namespace apply, the most specific ones.
func TestTLS(t *testing.T) {
	table := tableOf(read(t, "shop/web", 1, rules(
		rule("*.foo.com", to("/", "Prefix", "a")), rule("bar.foo.com", to("/", "Prefix", "b")), rule("", to("/", "Prefix", "c")))+
		"\ntls: [{hosts: ['*.foo.com'], secretName: wild}, {hosts: [baz.foo.com], secretName: baz}, {hosts: [bar.foo.com], secretName: bar},"+
		" {hosts: [alone.com], secretName: alone}, {hosts: [gone.com], secretName: gone}, {hosts: [foo.com]}]"))
	table.SetSecrets(map[Name]string{{"shop", "wild"}: "", {"shop", "baz"}: "", {"shop", "bar"}: "", {"shop", "alone"}: "", {"shop", "gone"}: "is not there"})
	s := serve(table)
	for request, want := range map[string]string{
		"*.foo.com x.foo.com": "a", "*.foo.com bar.foo.com": "b", "bar.foo.com bar.foo.com": "b", "baz.foo.com baz.foo.com": "a", "alone.com alone.com": "c",
	} {
		gateway, host, _ := strings.Cut(request, " ")
		if got := s.at("shop/ingress~"+gateway, host, "/"); got != want+".shop:80" {
			t.Errorf("under %s, %s goes to %s, want %s", gateway, host, got, want)
		}
	}
	for _, o := range s.rules { // Envoy applies all rules of a host at a gateway, the oldest first
		if v := o.Spec.(*networking.VirtualService); v.Hosts[0] != "bar.foo.com" && slices.Contains(v.Gateways, "shop/ingress~bar.foo.com") {
			t.Errorf("%s is served beside the rules of bar.foo.com", v.Hosts[0])
		}
	}
	if s.gateways["shop/ingress~gone.com"] != nil {
		t.Error("a listener waits for a Secret that is not there")
	}
	want := "Ingress/shop/web: spec.tls[4].secretName names Secret shop/gone, which is not there; gone.com is served without TLS\n" +
		"Ingress/shop/web: spec.tls[5].secretName is missing, the hosts are served without TLS\n"
	if s.faults != want {
		t.Errorf("the faults are\n%swant\n%s", s.faults, want)
	}
}

// A rule waits while a certificate under which it is served is not read, its own or that of a wildcard, and no longer than that.
func TestRulesWaitForCertificates(t *testing.T) {
	table := tableOf(read(t, "shop/web", 1, rules(
		rule("foo.com", to("/", "Prefix", "a")), rule("b.wild.com", to("/", "Prefix", "b")), rule("plain.com", to("/", "Prefix", "c")))+
		"\ntls: [{hosts: [foo.com], secretName: foo}, {hosts: ['*.wild.com'], secretName: wild}]"))
	waits := func(when string, want ...string) {
		t.Helper()
		table.Changes()
		var got []string
		for key, group := range table.All() {
			if group.Waits {
				got = append(got, strings.TrimPrefix(key, "VirtualService/shop/ingress~"))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q wait, want %q", when, got, want)
		}
	}
	waits("nothing is read", "b.wild.com", "foo.com")
	table.SetSecrets(map[Name]string{{"shop", "foo"}: "is not there"})
	waits("that of foo.com is not there", "b.wild.com")
	table.SetSecrets(map[Name]string{{"shop", "foo"}: "is not there", {"shop", "wild"}: ""})
	waits("both are read")
}

// Requests to a path that cannot be served are answered with 503, and the path is reported: they must not match a
// shorter path.
func TestBackends(t *testing.T) {
	s := serve(tableOf(read(t, "shop/web", 0, rules(rule("foo.com",
		to("/", "Prefix", "a"), to("/gone", "Prefix", "gone"),
		"{path: /port, pathType: Prefix, backend: {service: {name: a, port: {number: 81}}}}",
		"{path: /name, pathType: Prefix, backend: {service: {name: a, port: {name: wbe}}}}",
		"{path: /admin, pathType: Prefix, backend: {service: {name: a, port: {name: admin}}}}",
		"{path: /resource, pathType: Prefix, backend: {resource: {kind: Bucket, name: b}}}",
		"{path: /nothing, pathType: Prefix, backend: {}}",
		to("no-slash", "Prefix", "a"), to("/type", "Exactly", "a"), to("/fo*o", "ImplementationSpecific", "a")), rule("foo_", to("/", "Prefix", "a")), rule("1.2.3.4", to("/", "Prefix", "a"))))))
	for path, want := range map[string]string{
		"/": "a.shop:80", "/gone/x": "503", "/port": "503", "/name": "503", "/admin": "a.shop:9000", "/resource": "503", "/nothing": "503", "/type": "a.shop:80",
	} {
		if got := s.at("", "foo.com", path); got != want {
			t.Errorf("%s goes to %s, want %s", path, got, want)
		}
	}
	for _, want := range []string{
		`paths[1].backend.service.name is "gone", which is no Service of namespace shop, answered with 503`,
		`paths[2].backend.service.port.number is 81, which is no port of Service a, answered with 503`,
		`paths[3].backend.service.port.name is "wbe", which is no port of Service a`,
		`paths[5].backend.resource Bucket b is no Service`, `paths[6].backend.service is missing`,
		`paths[7].path is "no-slash", want a path that begins with /`, `paths[8].path has pathType "Exactly", want Exact`,
		`paths[9].path is "/fo*o", which no pathType takes`,
		`spec.rules[1].host is "foo_", want a DNS name`, `spec.rules[2].host is "1.2.3.4", want a DNS name`,
	} {
		if !strings.Contains(s.faults, want) {
			t.Errorf("the faults lack %q:\n%s", want, s.faults)
		}
	}
}

func TestClass(t *testing.T) {
	class := func(name, controller string, isDefault bool) *networkingv1.IngressClass {
		return &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: fmt.Sprint(isDefault)}},
			Spec:       networkingv1.IngressClassSpec{Controller: controller},
		}
	}
	mine, foreign := class("mine", Controller, false), class("nginx", "k8s.io/ingress-nginx", true)
	for name, row := range map[string]struct {
		classes           []*networkingv1.IngressClass
		field, annotation string
		ours              bool
		fault             string
	}{
		"by the flag's name":       {nil, "pilotlight", "", true, ""},
		"by an object":             {[]*networkingv1.IngressClass{mine}, "mine", "", true, ""},
		"by the annotation":        {nil, "", "pilotlight", true, ""},
		"annotation of an object":  {[]*networkingv1.IngressClass{mine}, "", "mine", true, ""},
		"another controller's":     {[]*networkingv1.IngressClass{foreign}, "nginx", "", false, ""},
		"our name is another's":    {[]*networkingv1.IngressClass{class("pilotlight", "example.com/thief", false)}, "pilotlight", "", false, ""},
		"none":                     {[]*networkingv1.IngressClass{mine, foreign}, "", "", false, ""},
		"none, ours is default":    {[]*networkingv1.IngressClass{class("mine", Controller, true)}, "", "", true, ""},
		"the field counts":         {[]*networkingv1.IngressClass{foreign}, "nginx", "pilotlight", false, "is ignored: spec.ingressClassName"},
		"unknown":                  {nil, "traefik", "", false, ""},
		"a typing error":           {nil, "pilotligth", "", false, "did you mean pilotlight?"},
		"a typing error of theirs": {[]*networkingv1.IngressClass{foreign}, "ngin", "", false, ""},
	} {
		i := read(t, "shop/web", 0, rules(rule("foo.com", to("/", "Prefix", "a"))))
		if i.Spec.IngressClassName = &row.field; row.field == "" {
			i.Spec.IngressClassName = nil
		}
		if row.annotation != "" {
			i.Annotations = map[string]string{classAnnotation: row.annotation}
		}
		table := tableOf(i)
		for _, c := range row.classes {
			table.Store("").Put(c, model.Origin{})
		}
		s := serve(table)
		if (len(s.rules) > 0) != row.ours || (len(table.Ours("")) > 0) != row.ours {
			t.Errorf("%s: it is ours: %v, want %v", name, len(s.rules) > 0, row.ours)
		}
		if !strings.Contains(s.faults, row.fault) || (row.fault == "") != (s.faults == "") {
			t.Errorf("%s: the faults are %q, want %q", name, s.faults, row.fault)
		}
	}
}

// The groups do not depend on the order in which objects come.
func TestOrder(t *testing.T) {
	all := []*networkingv1.Ingress{
		read(t, "shop/a", 3, rules(rule("foo.com", to("/", "Prefix", "a")), rule("*.foo.com", to("/", "Prefix", "a")))+"\ntls: [{hosts: [foo.com, x.foo.com], secretName: one}]"),
		read(t, "shop/b", 3, rules(rule("foo.com", to("/", "Prefix", "b"), to("/b", "Exact", "b")))+"\ntls: [{secretName: two}]"),
		read(t, "evil/c", 3, rules(rule("foo.com", to("/c", "Prefix", "c")), rule("", to("/", "Prefix", "c")))),
		read(t, "bank/d", 1, "defaultBackend: {service: {name: d, port: {number: 80}}}"),
	}
	var want map[string]model.Group
	for n := range 24 {
		order := slices.Clone(all)
		for i, k := 0, n; i < len(order); i++ { // each permutation
			j := i + k%(len(order)-i)
			k /= len(order) - i
			order[i], order[j] = order[j], order[i]
		}
		table := tableOf()
		got := map[string]model.Group{}
		for _, i := range order {
			table.Store("").Put(i, model.Origin{File: i.Name})
			for key, group := range table.Changes() {
				if got[key] = group; group.Empty() {
					delete(got, key)
				}
			}
			table.SetSecrets(map[Name]string{{"shop", "one"}: "", {"shop", "two"}: "is not there"})
		}
		maps.Copy(got, table.Changes())
		maps.DeleteFunc(got, func(_ string, g model.Group) bool { return g.Empty() })
		if want == nil {
			want = got
		}
		if !maps.EqualFunc(got, want, func(a, b model.Group) bool { return a.Same(b) && slices.Equal(a.Faults, b.Faults) }) {
			t.Fatalf("order %d tells something else", n)
		}
	}
}

// In a directory an Ingress that nobody serves is reported: no other controller reads it there.
func TestClassOfAFile(t *testing.T) {
	for class, want := range map[string]string{
		"nginx": `spec.ingressClassName is "nginx", which is no IngressClass: it is not served, want pilotlight, or an IngressClass of ` + Controller,
		"other": `spec.ingressClassName is "other", an IngressClass of example.com/other: it is not served here`,
		"":      `spec.ingressClassName is missing, and no IngressClass of ` + Controller + ` is the default: it is not served`,
	} {
		table := tableOf()
		i := read(t, "shop/web", 0, rules(rule("foo.com", to("/", "Prefix", "a"))))
		if i.Spec.IngressClassName = &class; class == "" {
			i.Spec.IngressClassName = nil
		}
		table.Store("").Put(&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/other"}}, model.Origin{})
		table.Store("").Put(i, model.Origin{File: "a.yaml", Line: 7})
		if got := serve(table).faults; got != "Ingress/shop/web: a.yaml:7: "+want+"\n" {
			t.Errorf("class %q: %s", class, got)
		}
	}
}

// If two stores have an Ingress the older one is used, which is one without a time; the other is reported.
func TestTwins(t *testing.T) {
	table := tableOf()
	young, file := read(t, "shop/web", 1, rules(rule("foo.com", to("/", "Prefix", "a")))), read(t, "shop/web", 0, rules(rule("foo.com", to("/", "Prefix", "b"))))
	file.CreationTimestamp = metav1.Time{}
	table.Store("kubernetesIngress").Put(young, model.Origin{Record: &model.Record{UID: "u"}})
	if s := serve(table); s.at("", "foo.com", "/") != "a.shop:80" || s.faults != "" {
		t.Errorf("alone it goes to %s, with %q", s.at("", "foo.com", "/"), s.faults)
	}
	table.Store("config").Put(file, model.Origin{File: "a.yaml", Line: 7})
	want := "Ingress/shop/web: another source has this Ingress too, at a.yaml:7, which is older or comes first: this one is not used\n"
	if s := serve(table); s.at("", "foo.com", "/") != "b.shop:80" || s.faults != want || len(table.Ours("kubernetesIngress")) > 0 || len(table.Ours("config")) != 1 {
		t.Errorf("with a twin it goes to %s, with %q", s.at("", "foo.com", "/"), s.faults)
	}
	table.Store("config").Delete(file)
	if s := serve(table); s.at("", "foo.com", "/") != "a.shop:80" || s.faults != "" {
		t.Errorf("alone again it goes to %s, with %q", s.at("", "foo.com", "/"), s.faults)
	}
}

// A path that no request has is refused, in the words of the API server's own rules; other characters are compared as they are.
func TestHostilePaths(t *testing.T) {
	for path, want := range map[string]string{
		"/a//b": "//", "/a/../b": "/../", "/a/./b": "/./", "/..": "/..", "/a/.": "/.", "/a%2fb": "%2f", "/a?b": "?", "/a#b": "#", "/a b": " ", "/a\nb": "\n", "//": "//",
	} {
		for _, kind := range []string{"Prefix", "Exact", "ImplementationSpecific"} {
			s := serve(tableOf(read(t, "shop/web", 0, rules(rule("foo.com", to(path, kind, "a"))))))
			if !strings.Contains(s.faults, fmt.Sprintf("want a path without %q", want)) || len(s.rules) > 0 {
				t.Errorf("%s %s: %s", kind, path, s.faults)
			}
		}
	}
	for _, path := range []string{"/a.*", "/(x)+[y]", "/%41", "/a$", "/^", "/a|b", "/ä", "/a:b@c"} {
		s := serve(tableOf(read(t, "shop/web", 0, rules(rule("foo.com", to(path, "Prefix", "a"))))))
		if got := s.at("", "foo.com", path+"/x"); got != "a.shop:80" || s.at("", "foo.com", "/aaa") != "404" || s.faults != "" {
			t.Errorf("%s goes to %s: %s", path, got, s.faults)
		}
	}
}

// A host named twice in one Ingress has its default backend once; two Ingresses with a default backend are reported.
func TestDefaultBackendTwice(t *testing.T) {
	s := serve(tableOf(read(t, "shop/web", 1, rules(rule("foo.com", to("/a", "Prefix", "a")), rule("foo.com", to("/b", "Prefix", "b")))+withDefault("c"))))
	if got := s.at("", "foo.com", "/x"); got != "c.shop:80" || s.faults != "" {
		t.Errorf("it goes to %s: %s", got, s.faults)
	}
	s = serve(tableOf(read(t, "shop/old", 2, strings.TrimSpace(withDefault("a"))), read(t, "shop/new", 1, strings.TrimSpace(withDefault("b")))))
	if got := s.at("", "foo.com", "/x"); got != "a.shop:80" || s.faults != "Ingress/shop/new: spec.defaultBackend is not served for *: Ingress shop/old has one\n" {
		t.Errorf("of two it goes to %s: %s", got, s.faults)
	}
}

// A host of one label gets a Gateway of its own, beside that of HTTP.
func TestHostNamedHTTP(t *testing.T) {
	table := tableOf(read(t, "shop/web", 1, rules(rule("http", to("/", "Prefix", "a")))+"\ntls: [{secretName: cert}]"))
	table.SetSecrets(map[Name]string{{"shop", "cert"}: ""})
	s := serve(table)
	if len(s.gateways) != 2 || s.at("", "http", "/") != "a.shop:80" || s.at("shop/ingress~http", "http", "/") != "a.shop:80" {
		t.Errorf("the gateways are %v", s.gateways)
	}
}

// An Ingress that names nothing claims nothing.
func TestEmptyIngress(t *testing.T) {
	s := serve(tableOf(read(t, "shop/web", 2, "{}"), read(t, "shop/rule", 2, "rules: [{host: foo.com}]"), read(t, "bank/all", 1, strings.TrimSpace(withDefault("a")))))
	want := "Ingress/shop/rule: spec.rules[0].http has no paths, and there is no spec.defaultBackend: it serves nothing\n" +
		"Ingress/shop/web: spec has neither rules nor a defaultBackend\n"
	if got := s.at("", "any.com", "/"); got != "a.bank:80" || s.faults != want {
		t.Errorf("it goes to %s: %s", got, s.faults)
	}
}

// An Ingress of 5,000 hosts with 2 paths each, about 1 MB, is served, and a younger one cannot take a host of it.
func TestHugeIngress(t *testing.T) {
	i := read(t, "shop/huge", 2, "{}")
	prefix := networkingv1.PathTypePrefix
	for n := range 5000 {
		paths := &networkingv1.HTTPIngressRuleValue{}
		for _, path := range []string{"/", "/static"} {
			paths.Paths = append(paths.Paths, networkingv1.HTTPIngressPath{Path: path, PathType: &prefix, Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}})
		}
		i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.foo.com", n), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: paths}})
	}
	table := tableOf(i)
	if s := serve(table); len(s.rules) != 5000 || s.faults != "" {
		t.Fatalf("%d hosts are served: %s", len(s.rules), s.faults)
	}
	before := table.translated
	table.Store("").Put(read(t, "evil/one", 1, rules(rule("h7.foo.com", to("/", "Prefix", "b")), rule("mine.com", to("/", "Prefix", "b")))), model.Origin{})
	if s := serve(table); len(s.rules) != 1 || !strings.Contains(s.faults, "belongs to namespace shop") || table.translated-before > 4 {
		t.Errorf("%d rules, %d translations: %s", len(s.rules), table.translated-before, s.faults)
	}
}

// Backends have the hosts of Services in the cluster's domain.
func TestDomain(t *testing.T) {
	table := New(Options{Class: "pilotlight", Proxies: "gateways", Selector: map[string]string{"istio": "ingress"}, Domain: "corp.example"})
	table.Store("").Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	}, model.Origin{})
	table.Store("").Put(read(t, "shop/i", 1, rules(rule("a.test", to("/", "Prefix", "a")))), model.Origin{})
	if got, want := serve(table).at("", "a.test", "/"), "a.shop.svc.corp.example:80"; got != want {
		t.Errorf("leads to %s, want %s", got, want)
	}
}
