package cloudfoundry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// shown returns the content of a table: services with their endpoints, and faults.
func shown(groups map[string]model.Group) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		line := key
		for _, s := range g.Services {
			line += " " + string(s.Ports[0].Protocol)
			for _, e := range s.Endpoints {
				line += " " + model.Endpoint{Address: e.Address}.Address + ":" + itoa(e.Ports["http"])
			}
			for _, n := range s.SubjectAltNames {
				line += " " + n
			}
		}
		for _, f := range g.Faults {
			line += " | " + f
		}
		out = append(out, line)
	}
	return out
}

func itoa(n uint32) string { return strings.TrimPrefix(instance{port: n}.place(), ":") }

var everyHost = model.Grant{Domains: []string{"*"}, Never: []string{"svc.cluster.local"}, Setting: "natsDomains"}

func TestRegister(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       []string
	}{
		{
			"a plain instance, by two names",
			`{"uris":["A.cf.test","*.b.cf.test/"],"host":"10.0.0.1","port":8080}`,
			[]string{"*.b.cf.test HTTP 10.0.0.1:8080", "a.cf.test HTTP 10.0.0.1:8080"},
		},
		{
			"tls_port beats port",
			`{"uris":["a.cf.test"],"host":"10.0.0.1","port":8080,"tls_port":61443,"server_cert_domain_san":"guid"}`,
			[]string{"a.cf.test HTTP 10.0.0.1:61443 guid"},
		},
		{
			"an IPv6 address and HTTP/2",
			`{"uris":["a.cf.test"],"host":"fd00::1","port":8080,"protocol":"http2"}`,
			[]string{"a.cf.test HTTP2 fd00::1:8080"},
		},
		{
			"a path beside a host: the host is served, the path named",
			`{"uris":["a.cf.test","a.cf.test/cart"],"host":"10.0.0.1","port":1}`,
			[]string{
				"a.cf.test HTTP 10.0.0.1:1",
				"messages for a.cf.test/cart | 10.0.0.1:1: has the path /cart, which is not served: want a host of its own, or a VirtualService " +
					"that routes the path to one",
			},
		},
		{
			"no name", `{"uris":["a b"],"host":"10.0.0.1","port":1}`,
			[]string{"messages for a b | 10.0.0.1:1: is no host name: want one such as shop.example.com or *.example.com"},
		},
		{
			"a wildcard that is not the first label", `{"uris":["a.*.test"],"host":"10.0.0.1","port":1}`,
			[]string{"messages for a.*.test | 10.0.0.1:1: is no host name: want one such as shop.example.com or *.example.com"},
		},
		{
			"a subject, not a name", `{"uris":["router.>"],"host":"10.0.0.1","port":1}`,
			[]string{"messages for router.> | 10.0.0.1:1: is no host name: want one such as shop.example.com or *.example.com"},
		},
		{
			"names of others", `{"uris":["web.default.svc.cluster.local","*.cluster.local","10.96.0.1","*.com","a.cf.test"],"host":"10.0.0.1","port":1}`,
			[]string{
				"a.cf.test HTTP 10.0.0.1:1",
				"messages for *.cluster.local | 10.0.0.1:1: *.cluster.local is a name of svc.cluster.local, which this registry may not give",
				"messages for *.com | 10.0.0.1:1: *.com covers a whole top-level domain: want a wildcard such as *.example.com",
				"messages for 10.96.0.1 | 10.0.0.1:1: 10.96.0.1 is an address, want a host name",
				"messages for web.default.svc.cluster.local | 10.0.0.1:1: web.default.svc.cluster.local is a name of svc.cluster.local, which this registry " +
					"may not give",
			},
		},
		{
			"no address", `{"uris":["a.cf.test"],"host":"cell","port":1,"private_instance_id":"i"}`,
			[]string{`messages for a.cf.test | i: host is "cell", want an IP address`},
		},
		{
			"no port", `{"uris":["a.cf.test"],"host":"10.0.0.1"}`,
			[]string{"messages for a.cf.test | 10.0.0.1:0: port is 0, want a port from 1 to 65535"},
		},
		{
			"a large port", `{"uris":["a.cf.test"],"host":"10.0.0.1","tls_port":65536}`,
			[]string{"messages for a.cf.test | 10.0.0.1:65536: tls_port is 65536, want a port from 1 to 65535"},
		},
		{
			"a protocol that nobody has", `{"uris":["a.cf.test"],"host":"10.0.0.1","port":1,"protocol":"gopher"}`,
			[]string{`messages for a.cf.test | 10.0.0.1:1: protocol is "gopher", want http1 or http2`},
		},
		{
			"a route service is not got past", `{"uris":["a.cf.test"],"host":"10.0.0.1","port":1,"route_service_url":"https://auth"}`,
			[]string{`messages for a.cf.test | 10.0.0.1:1: route_service_url is "https://auth", which is not served: requests would get past ` +
				"that service, so the instance is left out"},
		},
		{
			"a wrong type names its routes", `{"uris":["a.cf.test"],"host":"10.0.0.1","port":"x"}`,
			[]string{"messages for a.cf.test | 10.0.0.1:0: is no registration: json: cannot unmarshal string into Go struct field " +
				"message.port of type int64"},
		},
		{
			"no routes", `{"host":"10.0.0.1","port":1}`,
			[]string{`messages for router.register | a message uris is missing: want the hosts of the route, in "{\"host\":\"10.0.0.1\",\"port\":1}"`},
		},
		{
			"balancing is named", `{"uris":["a.cf.test"],"host":"10.0.0.1","port":1,"options":{"loadbalancing":"least-connection"}}`,
			[]string{`a.cf.test HTTP 10.0.0.1:1 | options.loadbalancing is "least-connection", which is not served: want ` +
				"trafficPolicy.loadBalancer of a DestinationRule"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := newTable(everyHost, DefaultThreshold)
			table.register([]byte(test.body), begin)
			if diff := cmp.Diff(test.want, shown(table.unsent())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupOf(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	table.register([]byte(`{"uris":["a.cf.test"],"host":"10.0.0.2","tls_port":61443,"server_cert_domain_san":"guid","app":"app","protocol":"http2",
		"private_instance_id":"id","private_instance_index":"7","availability_zone":"z1","tags":{"process_type":"web"}}`), begin)
	want := &model.Service{
		Registry: "CloudFoundry", Right: model.RightGuest, Origin: model.Origin{Record: &model.Record{UID: "route to 10.0.0.2:61443 app"}}, Host: "a.cf.test", Namespace: "default", Name: "a.cf.test", Resolution: model.ResolutionStatic,
		Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP2}},
		Endpoints: []model.Endpoint{{
			Address: "10.0.0.2", Ports: map[string]uint32{"http": 61443}, Locality: model.Locality{Zone: "z1"}, Labels: map[string]string{
				"process_type": "web", "cloudfoundry.org/app": "app", "cloudfoundry.org/instance": "id", "cloudfoundry.org/index": "7",
				"cloudfoundry.org/tls": "true",
			},
		}},
		SubjectAltNames: []string{"guid"},
	}
	if diff := cmp.Diff(model.Group{Services: []*model.Service{want}}, table.unsent()["a.cf.test"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	table.register([]byte(`{"uris":["a.cf.test"],"host":"10.0.0.1","port":8080}`), begin)
	got := table.unsent()["a.cf.test"]
	if len(got.Faults) != 2 || !strings.Contains(got.Faults[0], "1 of 2 instances take TLS") || !strings.Contains(got.Faults[1], "1 of 2 instances take HTTP/2") ||
		got.Services[0].Ports[0].Protocol != model.HTTP {
		t.Errorf("of a mixed route: %+v", got)
	}
}

func TestAges(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	register := func(name, fields string, at time.Duration) {
		table.register([]byte(`{"uris":["`+name+`"],"host":"10.0.0.1",`+fields+`}`), begin.Add(at))
	}
	left := func(at time.Duration, want ...string) {
		t.Helper()
		table.sweep(begin.Add(at))
		if got := slices.Sorted(maps.Keys(table.routes)); !slices.Equal(got, want) {
			t.Errorf("after %s there is %q, want %q", at, got, want)
		}
	}
	register("longer", `"port":1,"stale_threshold_in_seconds":3600`, 0)
	register("plain", `"port":1`, 0)
	register("shorter", `"port":1,"stale_threshold_in_seconds":30`, 0)
	register("tls", `"tls_port":1,"stale_threshold_in_seconds":30`, 0)
	left(30*time.Second, "longer", "plain", "shorter", "tls")
	left(31*time.Second, "longer", "plain", "tls")
	register("plain", `"port":1`, 60*time.Second)
	left(121*time.Second, "plain", "tls")
	table.refresh(begin.Add(time.Hour)) // NATS could not be reached
	left(time.Hour+120*time.Second, "plain", "tls")
	left(time.Hour+121*time.Second, "tls")
	table.unregister([]byte(`{"uris":["tls"],"host":"10.0.0.1","port":2}`), begin)
	left(time.Hour+121*time.Second, "tls") // of another port
	table.unregister([]byte(`{"uris":["TLS/"],"host":"10.0.0.1","tls_port":1}`), begin)
	left(time.Hour + 121*time.Second)
	if table.entries != 0 {
		t.Errorf("%d entries are left", table.entries)
	}
}

// A malformed message removes nothing. Its fault is dropped when the instance sends a valid announcement, is withdrawn,
// or sends nothing more.
func TestFaults(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	const good, bad = `{"uris":["a"],"host":"10.0.0.1","port":1,"private_instance_id":"i"}`, `{"uris":["a"],"host":"x","port":1,"private_instance_id":"i"}`
	step := func(do func(), want ...string) {
		t.Helper()
		do()
		if got := shown(table.unsent()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	const fault = `messages for a | i: host is "x", want an IP address`
	step(func() { table.register([]byte(good), begin) }, "a HTTP 10.0.0.1:1")
	step(func() { table.register([]byte(bad), begin) }, fault)
	step(func() { table.register([]byte(bad), begin) })
	step(func() { table.register([]byte(good), begin) }, "messages for a")
	step(func() { table.register([]byte(bad), begin) }, fault)
	step(func() { table.unregister([]byte(bad), begin) }, "messages for a")
	step(func() { table.register([]byte(bad), begin.Add(time.Second)) }, fault)
	step(func() { table.sweep(begin.Add(122 * time.Second)) }, "a", "messages for a")
	step(func() { table.unregister([]byte("{"), begin) }, `messages for router.unregister | a message is no registration: unexpected end of JSON input, in "{"`)
}

// A publisher that invents routes uses no more memory than the limit, and its first routes stay.
func TestTheTableIsBounded(t *testing.T) {
	table := newTable(everyHost, DefaultThreshold)
	table.limit = 20_000
	refused := 0
	for i := range 100_000 {
		refused += table.register([]byte(fmt.Sprintf(`{"uris":["s%d.cf.test"],"host":"10.0.0.1","port":1}`, i)), begin)
	}
	if len(table.routes) != 20_000 || refused != 80_000 || table.entries != 20_001 {
		t.Errorf("%d routes, %d refused, %d entries", len(table.routes), refused, table.entries)
	}
	if table.register([]byte(`{"uris":["s7.cf.test"],"host":"10.0.0.1","port":1,"availability_zone":"z2"}`), begin) != 0 || table.routes["s7.cf.test"]["10.0.0.1:1"].zone != "z2" {
		t.Error("a route that is known cannot change any more")
	}
	if faults := table.unsent()["messages for router.register"].Faults; len(faults) != 1 || !strings.Contains(faults[0], "there are 20000") {
		t.Errorf("the faults are %q", faults)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"uris":["a.test","b.test/c"],"host":"10.0.0.1","port":80}`), false)
	f.Add([]byte(`{"uris":["*.test"],"host":"::1","tls_port":80,"tags":{"a":"b"}}`), true)
	f.Add([]byte("[]"), true)
	f.Fuzz(func(t *testing.T, data []byte, remove bool) {
		table := newTable(everyHost, DefaultThreshold)
		table.limit = 4
		table.register([]byte(`{"uris":["a.test"],"host":"10.0.0.1","port":80}`), begin)
		if table.register(data, begin); remove {
			table.unregister(data, begin)
		}
		for key, g := range table.unsent() {
			for _, s := range g.Services {
				if s.Host != key || len(s.Endpoints) == 0 {
					t.Errorf("%q: %+v", key, s)
				}
			}
		}
		count := 0
		for _, r := range table.routes {
			count += len(r)
		}
		for _, faults := range table.faults {
			count += len(faults)
		}
		if count != table.entries || count > table.limit+2 {
			t.Errorf("%d entries, counted %d, at most %d", count, table.entries, table.limit)
		}
		if table.sweep(begin.Add(time.Hour)); table.due(begin.Add(time.Hour)) {
			t.Error("something is still to be swept")
		}
	})
}
