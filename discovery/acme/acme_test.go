package acme

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// server is one of a Gateway: an HTTPS one of an issuer, or with issuer "" a plain one.
func server(port uint32, issuer string, hosts ...string) *networking.Server {
	s := &networking.Server{Port: &networking.Port{Number: port, Name: "p" + string(rune('a'+port%26)), Protocol: "HTTP"}, Hosts: hosts}
	if issuer != "" {
		s.Port.Protocol, s.Tls = "HTTPS", &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: "acme://" + issuer}
	}
	return s
}

func gateway(namespace, name, selects string, servers ...*networking.Server) *model.Object {
	return &model.Object{Meta: model.Meta{Kind: "Gateway", Namespace: namespace, Name: name}, Spec: &networking.Gateway{
		Selector: map[string]string{"gateway": selects}, Servers: servers,
	}}
}

func workload(namespace, name string) model.Proxy {
	return model.Proxy{Namespace: namespace, Labels: map[string]string{"gateway": name}, Gateway: true}
}

func TestWanted(t *testing.T) {
	edge := []model.Proxy{workload("edge", "gw")}
	for name, test := range map[string]struct {
		objects   []*model.Object
		connected []model.Proxy
		want      []string // keys, with the hosts without port 80
	}{
		"one host":                        {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "./A.test"), server(80, "", "*"))}, edge, []string{"edge lets a.test"}},
		"hosts are one certificate":       {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "b.test", "a.test"), server(80, "", "*.test"))}, edge, []string{"edge lets a.test,b.test"}},
		"no port 80 of a host":            {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "b.test", "a.test"), server(80, "", "a.test"))}, edge, []string{"edge lets a.test,b.test !b.test"}},
		"port 80 is of another gateway":   {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "a.test")), gateway("shop", "h", "other", server(80, "", "a.test"))}, edge, []string{"edge lets a.test !a.test"}},
		"port 80 is taken by other bytes": {[]*model.Object{gateway("shop", "g", "gw", server(80, "lets", "a.test")), gateway("shop", "h", "gw", server(80, "", "a.test"))}, edge, []string{"edge lets a.test !a.test"}},
		"nobody is connected":             {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "a.test"))}, nil, nil},
		"a namespace without an account":  {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "a.test"))}, []model.Proxy{workload("shop", "gw")}, nil},
		"a foreign issuer":                {[]*model.Object{gateway("shop", "g", "gw", server(443, "evil", "a.test"), server(80, "", "*"))}, edge, nil},
		"a wildcard and an address":       {[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "*.test", "10.0.0.1"), server(80, "", "*"))}, edge, nil},
		"the host of an older Gateway": {
			[]*model.Object{gateway("bank", "g", "gw", server(443, "lets", "a.test")), gateway("shop", "h", "gw", server(443, "lets", "a.test", "b.test"), server(80, "", "*"))},
			edge,
			[]string{"edge lets a.test", "edge lets b.test"},
		},
		"each namespace proves for itself": {
			[]*model.Object{gateway("shop", "g", "gw", server(443, "lets", "a.test")), gateway("edge", "h", "gw", server(80, "", "*"))},
			[]model.Proxy{workload("edge", "gw"), workload("rim", "gw")},
			[]string{"edge lets a.test", "rim lets a.test"},
		},
	} {
		m := model.New(slices.Values([]model.Group{{Objects: test.objects}}))
		sets, _ := Wanted(m, test.connected, []string{"edge", "rim"}, []string{"lets"}, nil)
		var got []string
		for _, s := range sets {
			text := s.Key()
			if len(s.NoHTTP) > 0 {
				text += " !" + strings.Join(s.NoHTTP, ",")
			}
			got = append(got, text)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Gateway workloads of one namespace get the certificate of a server under one name. Where an older Gateway takes a host from one of them alone, the certificate
// is for the hosts that either serves: with one for the hosts of each, all would get that of the last.
func TestAServerHasOneCertificateInANamespace(t *testing.T) {
	selected := func(namespace, name string, selector map[string]string, hosts ...string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "Gateway", Namespace: namespace, Name: name}, Spec: &networking.Gateway{
			Selector: selector, Servers: []*networking.Server{server(443, "lets", hosts...), server(80, "", hosts...)},
		}}
	}
	tier := func(name string) model.Proxy {
		return model.Proxy{Namespace: "edge", Labels: map[string]string{"gateway": "gw", "tier": name}, Gateway: true}
	}
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{
		selected("bank", "g", map[string]string{"tier": "one"}, "a.test"), selected("park", "g", map[string]string{"tier": "two"}, "b.test"),
		selected("shop", "h", map[string]string{"gateway": "gw"}, "a.test", "b.test", "c.test"),
	}}}))
	sets, _ := Wanted(m, []model.Proxy{tier("one"), tier("two")}, []string{"edge"}, []string{"lets"}, nil)
	var got []string
	for _, s := range sets {
		got = append(got, s.Key()+" for "+strings.Join(s.Secrets, ","))
		if len(s.NoHTTP) > 0 || len(s.Places) != 1 {
			t.Errorf("%+v", s)
		}
	}
	want := []string{"edge lets a.test for acme://lets/bank/g/pb", "edge lets a.test,b.test,c.test for acme://lets/shop/h/pb", "edge lets b.test for acme://lets/park/g/pb"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Only proxies that may have the key are gateways for an issuer.
func TestEntitled(t *testing.T) {
	accounts := map[string][]string{"edge": {"gw", "gw2"}}
	for name, test := range map[string]struct {
		p    model.Proxy
		want bool
	}{
		"an account that is named":             {model.Proxy{Namespace: "edge", Keys: true, Account: "gw2"}, true},
		"another account of the namespace":     {model.Proxy{Namespace: "edge", Keys: true, Account: "web"}, false},
		"the account's name in another":        {model.Proxy{Namespace: "shop", Keys: true, Account: "gw"}, false},
		"plain text":                           {model.Proxy{Namespace: "edge"}, false},
		"plain text, where it has secrets too": {model.Proxy{Namespace: "edge", Keys: true}, true},
		"a token in plain text":                {model.Proxy{Namespace: "edge", Account: "gw"}, false},
	} {
		if got := len(Entitled([]model.Proxy{test.p}, accounts)) == 1; got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// Namespaces of Gateways share the certificates that are asked for, in turn.
func TestSetsAreShared(t *testing.T) {
	servers := func(namespace string, n int) *model.Object {
		g := gateway(namespace, "g", "gw")
		for i := range n {
			spec := g.Spec.(*networking.Gateway)
			spec.Servers = append(spec.Servers, server(uint32(1000+i%100), "lets", fmt.Sprintf("%s%04d.test", namespace, i)))
			spec.Servers[i].Port.Name = fmt.Sprint(i)
		}
		return g
	}
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{servers("evil", MaxSets+100), servers("shop", 2), servers("bank", 1)}}}))
	held := map[string]bool{"edge lets shop0001.test": true}
	sets, notes := Wanted(m, []model.Proxy{workload("edge", "gw")}, []string{"edge"}, []string{"lets"}, held)
	var first []string
	for _, s := range sets[:5] {
		first = append(first, s.Hosts...)
	}
	if got, want := strings.Join(first, " "), "shop0001.test bank0000.test evil0000.test evil0001.test shop0000.test"; got != want {
		t.Errorf("the first are %s, want %s", got, want)
	}
	if len(sets) != MaxSets || len(notes) != 103 || notes[0].Code != model.ACMEWaits || notes[0].Meta.Namespace != "evil" {
		t.Errorf("%d sets, %d notes, %v", len(sets), len(notes), notes[:1])
	}
}

func TestUnknownIssuers(t *testing.T) {
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{gateway("shop", "g", "gw", server(443, "evil", "a.test"), server(444, "lets", "b.test"))}}}))
	notes := Unknown(m, []string{"lets"})
	if len(notes) != 1 || notes[0].Code != model.UnknownIssuer || notes[0].Path != "spec.servers[0].tls.credentialName" || !strings.Contains(notes[0].Message, `"lets"`) {
		t.Errorf("%+v", notes)
	}
}

// A name of a certificate stays with its server, and no credentialName of a Gateway is the name of another's.
func TestNamesOfCertificates(t *testing.T) {
	if got := model.IssuedSecret(model.Meta{Namespace: "shop", Name: "g"}, server(443, "lets", "a.test")); got != "acme://lets/shop/g/pb" {
		t.Error(got)
	}
}

// unbegun is a record of which the begin of a try could not be kept.
func unbegun(r Record, at time.Time) Record {
	r.Unbegun, r.Failures = true, 100
	return r.Failed(at, "full", 0, false, false, 0.5)
}

func TestDue(t *testing.T) {
	day := 24 * time.Hour
	held := Record{}.Issued([]byte("k"), []byte("c"), start, start.Add(90*day))
	for name, test := range map[string]struct {
		r    Record
		want time.Time
	}{
		"nothing is held":                   {Record{}, time.Time{}},
		"held":                              {held, start.Add(60 * day)},
		"a try is under way":                {Record{}.Begin(start, 0.5), start.Add(time.Minute)},
		"an order goes on":                  {Record{}.Begin(start, 0.5).Ordered("u", nil), time.Time{}},
		"a renewal goes on":                 {held.Begin(start, 0.5).Ordered("u", nil), time.Time{}},
		"a failure":                         {Record{}.Begin(start, 0.5).Failed(start, "x", 0, false, true, 0.5), start.Add(time.Minute)},
		"the issuer says later":             {Record{}.Begin(start, 0.5).Failed(start, "x", time.Hour, true, false, 0.5), start.Add(time.Hour)},
		"it was not made":                   {unbegun(held, start), start.Add(60 * day)},
		"none is held, and it was not made": {unbegun(Record{}, start), start.Add(time.Minute)},
		"the issuer says never":             {Record{}.Begin(start, 0.5).Failed(start, "x", 1000*day, true, false, 0.5), start.Add(mostPause)},
	} {
		if got := test.r.Due(); !got.Equal(test.want) {
			t.Errorf("%s: due at %s, want %s", name, got, test.want)
		}
	}
	for failures, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 10: 512 * time.Minute, 11: lastRetry, 1000: lastRetry} {
		if got := pause(failures, 0.5); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
	if low, high := pause(1, 0), pause(1, 1); low != 54*time.Second || high != 66*time.Second {
		t.Errorf("a minute is %s to %s", low, high)
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "99999999999999": 0,
		start.Add(time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"): time.Hour, start.Add(-time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"): 0,
	} {
		if got := RetryAfter(value, start); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestNotesOfARecord(t *testing.T) {
	set := Set{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}, Places: []Place{{Path: "spec"}}}
	waits := Record{Issuer: "lets"}.Begin(start, 0.5)
	for name, test := range map[string]struct {
		r    Record
		s    Set
		code model.Code
	}{
		"held":       {Record{}.Issued(nil, []byte("c"), start, start.Add(time.Hour)), set, ""},
		"no port 80": {Record{}, Set{Issuer: "lets", Hosts: set.Hosts, NoHTTP: set.Hosts, Places: set.Places}, model.ACMENoHTTP},
		"refused":    {waits.Failed(start, "no\x1b[31m\nway", 0, false, true, 0.5), set, model.ACMERefused},
		"not kept":   {unbegun(Record{}, start.Add(-time.Hour)), set, model.ACMERefused},
		"begun":      {unbegun(Record{}, start).Begin(start.Add(-24*time.Hour), 0.5), set, ""},
		"limited":    {waits.Failed(start, "too many", time.Hour, true, false, 0.5), set, model.ACMEWaits},
	} {
		notes := test.r.Notes(test.s, start)
		switch {
		case test.code == "" && len(notes) == 0:
		case len(notes) != 1 || notes[0].Code != test.code || strings.ContainsAny(notes[0].Message, "\x1b\n"):
			t.Errorf("%s: %+v, want %q", name, notes, test.code)
		}
	}
	if text := Clip(strings.Repeat("ä", 1000)); len(text) > maxWords+3 || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("clipped to %d bytes", len(text))
	}
}
