package eureka

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// parse reads applications as they are on the wire.
func parse(t *testing.T, text string) []change {
	t.Helper()
	r := newReading(strings.NewReader(text))
	if err := r.applications(); err != nil {
		t.Fatal(err)
	}
	return r.out.changes
}

// granted are the hosts that the operator allows.
var granted = model.Grant{Suffix: Suffix, Domains: []string{"example.com"}, Never: []string{"svc.cluster.local"}, Setting: "eurekaDomains"}

func TestGroupsOf(t *testing.T) {
	const plain = `"ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 8080, "@enabled": "true"}, "securePort": {"$": 443, "@enabled": "false"}`
	service := func(host, name string, ports []model.Port, endpoints ...model.Endpoint) []*model.Service {
		return []*model.Service{{
			Registry: "Eureka", Right: model.RightSuffix, Host: host, Namespace: "default", Name: name, Resolution: model.ResolutionStatic, Ports: ports, Endpoints: endpoints,
		}}
	}
	guest := func(services []*model.Service) []*model.Service {
		services[0].Right, services[0].Origin.Record = model.RightGuest, &model.Record{UID: "instance 1 of application APP"}
		return services
	}
	http := []model.Port{{Name: "http-8080", Number: 8080, Protocol: model.HTTP}}
	one := model.Endpoint{Address: "10.0.0.1", Health: model.HealthHealthy}
	foreign := []string{
		`instance 1 of application APP: vipAddress "web.default.svc.cluster.local:80" is not served: web.default.svc.cluster.local is a name of ` +
			`svc.cluster.local, which this registry may not give`,
		`instance 1 of application APP: vipAddress "api.bank.com:80" is not served: api.bank.com is not a name that this registry may give: ` +
			`want one below service.eureka, example.com, or the domain in --eurekaDomains`,
	}
	with := func(e model.Endpoint, edit func(*model.Endpoint)) model.Endpoint { edit(&e); return e }
	for _, tt := range []struct {
		name, instances string
		want            map[string]model.Group
	}{
		{"a name without a dot", `[{"instanceId": "1", "vipAddress": "Web", ` + plain + `}]`, map[string]model.Group{
			"web.service.eureka": {Services: service("web.service.eureka", "web", http, one)},
		}},
		{"a single instance without brackets", `{"instanceId": "1", "vipAddress": "web.example.com", ` + plain + `}`, map[string]model.Group{
			"web.example.com": {Services: guest(service("web.example.com", "web.example.com", http, one))},
		}},
		{"no name", `[{"instanceId": "1", ` + plain + `}]`, map[string]model.Group{
			"app.service.eureka": {Services: service("app.service.eureka", "app", http, one)},
		}},
		{"several names, one with a port", `[{"instanceId": "1", "vipAddress": "web, other.example.com:80", ` + plain + `}]`, map[string]model.Group{
			"web.service.eureka": {Services: service("web.service.eureka", "web", http, one)},
			"other.example.com": {Services: guest(service("other.example.com", "other.example.com", []model.Port{{Name: "http-80", Number: 80, Protocol: model.HTTP}},
				with(one, func(e *model.Endpoint) { e.Ports, e.Partial = map[string]uint32{"http-80": 8080}, true })))},
		}},
		{"names of others", `[{"instanceId": "1", "vipAddress": "web.default.svc.cluster.local:80,api.bank.com:80,web", ` + plain + `}]`, map[string]model.Group{
			"web.default.svc.cluster.local": {Faults: foreign},
			"api.bank.com":                  {Faults: foreign},
			"web.service.eureka":            {Services: service("web.service.eureka", "web", http, one), Faults: foreign},
		}},
		{"plain and secure", `[{"instanceId": "1", "vipAddress": "web", "ipAddr": "10.0.0.1", "status": "UP",
			"port": {"$": "8080", "@enabled": true}, "securePort": {"$": 8443, "@enabled": "true"}}]`, map[string]model.Group{
			"web.service.eureka": {Services: service("web.service.eureka", "web", append(slices.Clone(http), model.Port{Name: "https-8443", Number: 8443, Protocol: model.HTTPS}), one)},
		}},
		{"a secure name", `[{"instanceId": "1", "vipAddress": "web", "secureVipAddress": "safe", "ipAddr": "10.0.0.1", "status": "UP",
			"port": {"$": 8080, "@enabled": "true"}, "securePort": {"$": 8443, "@enabled": "true"}}]`, map[string]model.Group{
			"web.service.eureka":  {Services: service("web.service.eureka", "web", http, one)},
			"safe.service.eureka": {Services: service("safe.service.eureka", "safe", []model.Port{{Name: "https-8443", Number: 8443, Protocol: model.HTTPS}}, one)},
		}},
		{
			"ports of their own, one dialled", `[
			{"instanceId": "1", "vipAddress": "web", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 31001, "@enabled": "true"}, "metadata": {"service-port": "8080"}},
			{"instanceId": "2", "vipAddress": "web", "ipAddr": "10.0.0.2", "status": "DOWN", "port": {"$": 8080, "@enabled": "true"}, "metadata": {"istio.protocol": "http"}}]`,
			map[string]model.Group{"web.service.eureka": {Services: service("web.service.eureka", "web", http,
				with(one, func(e *model.Endpoint) {
					e.Ports, e.Partial, e.Labels = map[string]uint32{"http-8080": 31001}, true, map[string]string{"service-port": "8080"}
				}),
				model.Endpoint{Address: "10.0.0.2", Health: model.HealthUnhealthy, Labels: map[string]string{"istio.protocol": "http"}})}},
		},
		{"metadata", `[{"instanceId": "1", "vipAddress": "web", "metadata": {"@class": "m", "version": "v1", "weight": 7, "region": "eu", "zone": "eu-1", "subzone": "r7", "protocol": "grpc"}, ` +
			plain + `}]`, map[string]model.Group{"web.service.eureka": {Services: service("web.service.eureka", "web",
			[]model.Port{{Name: "grpc-8080", Number: 8080, Protocol: model.GRPC}}, with(one, func(e *model.Endpoint) {
				e.Labels = map[string]string{"version": "v1", "weight": "7", "region": "eu", "zone": "eu-1", "subzone": "r7", "protocol": "grpc"}
				e.Weight, e.Locality = 7, model.Locality{Region: "eu", Zone: "eu-1", SubZone: "r7"}
			}))}}},
		{
			"Amazon's zone", `[{"instanceId": "1", "vipAddress": "web", "dataCenterInfo": {"name": "Amazon", "metadata": {"availability-zone": "us-east-1c"}}, ` + plain + `}]`,
			map[string]model.Group{"web.service.eureka": {Services: service("web.service.eureka", "web", http,
				with(one, func(e *model.Endpoint) { e.Locality.Zone = "us-east-1c" }))}},
		},
		{"malformed in part", `[{"instanceId": "1", "vipAddress": "web", ` + plain + `}, {"instanceId": "2", "vipAddress": "web", "port": 8080},
			{"instanceId": "3", "vipAddress": "web", "ipAddr": "10.0.0.3", "status": "UP", "port": {"$": 8080, "@enabled": "false"}}]`, map[string]model.Group{
			"web.service.eureka": {
				Services: service("web.service.eureka", "web", http, one),
				Faults:   []string{"instance 3 of application APP: neither port nor securePort is enabled"},
			},
			"app.service.eureka": {Faults: []string{"instance 2 of application APP: json: cannot unmarshal number into Go struct field instance.port of type eureka.port"}},
		}},
		{"malformed", `[{"instanceId": "1", "vipAddress": "web", "ipAddr": "0.0.0.0", "status": "SLEEPY", "port": {"$": 1, "@enabled": "true"}}]`, map[string]model.Group{
			"web.service.eureka": {Faults: []string{
				`instance 1 of application APP: status is "SLEEPY", want UP, DOWN, STARTING, OUT_OF_SERVICE or UNKNOWN: it is not used`,
				`instance 1 of application APP: ipAddr is "0.0.0.0", want an IP address, or a hostName without it`,
			}},
		}},
		{"nameless", `[{"vipAddress": "web", ` + plain + `}]`, map[string]model.Group{
			"app.service.eureka": {Faults: []string{"instance  of application APP: it has neither an instanceId nor a hostName"}},
		}},
		{"a placeholder", `[{"instanceId": "1", "vipAddress": "${name}", ` + plain + `}]`, map[string]model.Group{
			"${name}.service.eureka": {Faults: []string{`instance 1 of application APP: vipAddress is "${name}", want letters, digits, "-", "_" and "."`}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry(granted)
			r.whole(parse(t, `{"application": [{"name": "app", "instance": `+tt.instances+`}]}`), time.Time{})
			if diff := cmp.Diff(tt.want, groupsOf(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	for status, want := range map[string]model.Health{
		"UP": model.HealthHealthy, "DOWN": model.HealthUnhealthy, "STARTING": model.HealthUnhealthy, "OUT_OF_SERVICE": model.HealthDraining,
		"UNKNOWN": model.HealthUnhealthy,
	} {
		if got, known := healthOf(status); got != want || !known {
			t.Errorf("%s is %s, %t, want %s", status, got, known, want)
		}
	}
}

// An instance that can no longer be read keeps its hosts, so that their last good form stays.
func TestASpoiltInstanceKeepsItsHosts(t *testing.T) {
	r := newRegistry(granted)
	r.whole(parse(t, `{"application": {"name": "a", "instance": {"instanceId": "1", "vipAddress": "web", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 80, "@enabled": "true"}}}}`), time.Time{})
	for range 2 {
		r.delta(parse(t, `{"application": {"name": "a", "instance": {"instanceId": "1", "status": "UP", "port": []}}}`))
		groups := groupsOf(r)
		if g := groups["web.service.eureka"]; len(groups) != 1 || !g.Malformed() {
			t.Errorf("the groups are %+v, want faults of web", groups)
		}
		if r.hash() != "UP_1_" {
			t.Errorf("the hash code is %q, want UP_1_: the instance counts", r.hash())
		}
	}
}

// An instance that a complete answer lacks stays until its lease is over; one that a delta removes does not stay.
func TestLacking(t *testing.T) {
	const text = `{"application": {"name": "a", "instance": [
		{"instanceId": "1", "ipAddr": "10.0.0.1", "status": "UP", "port": {"$": 80, "@enabled": "true"}, "leaseInfo": {"durationInSecs": 30}},
		{"instanceId": "2", "ipAddr": "10.0.0.2", "status": "UP", "port": {"$": 80, "@enabled": "true"}},
		{"instanceId": "3", "ipAddr": "10.0.0.3", "status": "DOWN", "port": {"$": 80, "@enabled": "true"}, "leaseInfo": {"durationInSecs": 9999999999}},
		{"instanceId": "4", "ipAddr": "10.0.0.4", "status": "UP", "port": {"$": 80, "@enabled": "true"}}]}}`
	began := time.Unix(1000, 0)
	r := newRegistry(granted)
	r.whole(parse(t, text), began)
	if got := r.hash(); got != "DOWN_1_UP_3_" {
		t.Errorf("the hash code is %q", got)
	}
	r.whole(nil, began)
	if got := r.hash(); got != "" {
		t.Errorf("the hash code of nothing is %q", got)
	}
	r.delta(parse(t, `{"application": {"name": "a", "instance": {"instanceId": "4", "actionType": "DELETED"}}}`))
	r.whole(nil, began.Add(10*time.Second)) // this does not start the lease again
	for _, tt := range []struct {
		after time.Duration
		want  []string
	}{
		{29 * time.Second, []string{"1", "2", "3"}},
		{30 * time.Second, []string{"2", "3"}},
		{89 * time.Second, []string{"2", "3"}},
		{90 * time.Second, []string{"3"}},
		{299 * time.Second, []string{"3"}},
		{300 * time.Second, nil},
	} {
		r.expire(began.Add(tt.after))
		var got []string
		for k := range maps.Keys(r.records) {
			got = append(got, k.id)
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("after %s there are %v, want %v", tt.after, got, tt.want)
		}
	}
	if len(r.lacking) != 0 {
		t.Errorf("lacking are %v", r.lacking)
	}
}

// No answer of a broken or hostile Eureka ends the program.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"application": [{"name": "A", "instance": [{"instanceId": "1", "vipAddress": "a:1,b", "port": {"$": 1, "@enabled": "true"}}]}]}`), true)
	f.Add([]byte(`{"application": {"name": "A", "instance": {"actionType": "DELETED", "metadata": {"weight": "0"}, "leaseInfo": {"durationInSecs": 1e99}}}}`), false)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		read := newReading(bytes.NewReader(data))
		if read.applications() != nil {
			return
		}
		changes := read.out.changes
		r := newRegistry(granted)
		for i := range 3 {
			if whole == (i%2 == 0) {
				r.whole(changes, time.Time{})
			} else {
				r.delta(changes)
			}
			r.expire(time.Time{}.Add(time.Duration(i) * time.Minute))
			for host, g := range groupsOf(r) {
				if g.Empty() {
					t.Errorf("%q has an empty group", host)
				}
				for _, s := range g.Services {
					if s.Host != host || len(s.Endpoints) == 0 || len(s.Ports) == 0 {
						t.Errorf("%q is %+v", host, s)
					}
				}
			}
		}
	})
}
