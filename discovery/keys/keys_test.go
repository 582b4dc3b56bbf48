package keys

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	set   = `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	taken = `{"keys":[{"kty":"OKP","kid":"1","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
)

func TestInside(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": false, "2606:4700::1": false, "::ffff:8.8.8.8": false, "172.32.0.1": false, "100.128.0.1": false,
		"127.0.0.1": true, "10.0.0.1": true, "172.16.0.1": true, "192.168.1.1": true, "169.254.169.254": true, "0.0.0.0": true, "0.1.2.3": true,
		"224.0.0.1": true, "255.255.255.255": true, "100.64.0.1": true, "198.18.0.1": true, "::": true, "::1": true, "fe80::1%eth0": true,
		"fd00::1": true, "ff02::1": true, "::ffff:127.0.0.1": true, "::ffff:10.0.0.1": true, "::10.0.0.1": true, "64:ff9b::a00:1": true, "2002:a00:1::": true,
		"fec0::1": true, "2001:db8::1": true,
		"::ffff:0:127.0.0.1": true, "::ffff:0:10.0.0.1": true, "::ffff:0:169.254.169.254": true, "::ffff:0:8.8.8.8": true, "::ffff:0:0:1": true, "::fffe:7f00:1": false,
	} {
		if got := Inside(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is inside: %t, want %t", address, got, want)
		}
	}
	if !Inside(netip.Addr{}) {
		t.Error("no address is one of the Internet")
	}
}

// names resolves every name to the next list each time.
type names struct {
	lists [][]string
	asked int
}

func (n *names) LookupNetIP(context.Context, string, string) (out []netip.Addr, err error) {
	n.asked++
	for _, a := range n.lists[min(n.asked, len(n.lists))-1] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// The address that was judged is dialled, and no other: an answer of DNS that changes leads nowhere else.
func TestDialsWhatWasJudged(t *testing.T) {
	for name, test := range map[string]struct {
		lists  [][]string
		inside bool
		want   string // what is dialled
		fault  string
	}{
		"of the Internet":     {[][]string{{"8.8.8.8"}, {"127.0.0.1"}}, false, "8.8.8.8:443", ""},
		"inside":              {[][]string{{"127.0.0.1"}}, false, "", "127.0.0.1 is an address inside"},
		"one of two inside":   {[][]string{{"10.0.0.1", "2606:4700::1"}}, false, "[2606:4700::1]:443", ""},
		"in another notation": {[][]string{{"::ffff:169.254.169.254"}}, false, "", "is an address inside"},
		"inside, allowed":     {[][]string{{"10.0.0.1"}}, true, "10.0.0.1:443", ""},
		"none":                {[][]string{{}}, false, "", "it has no address"},
	} {
		dialled, dns := "", &names{lists: test.lists}
		d := dialer{dns, test.inside, "jwksInside", func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = address
			client, _ := net.Pipe()
			return client, nil
		}}
		_, err := d.dial(t.Context(), "tcp", "issuer.test:443")
		if dialled != test.want || (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) || dns.asked != 1 {
			t.Errorf("%s: dials %q, %v after %d questions, want %q, %q", name, dialled, err, dns.asked, test.want, test.fault)
		}
	}
}

func TestFetch(t *testing.T) {
	var secured *httptest.Server
	pages := map[string]http.HandlerFunc{
		"/keys":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set) },
		"/empty":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys": []}`) },
		"/page":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) },
		"/long":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set, strings.Repeat(" ", maxAnswer)) },
		"/missing": http.NotFound,
		"/moved":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) },
		"/round":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) },
		"/inside": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://10.0.0.1/keys", http.StatusFound)
		},
		"/plain": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://issuer.test/keys", http.StatusFound)
		},
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page := pages[r.URL.Path]; page != nil {
			page(w, r)
			return
		}
		http.NotFound(w, r)
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	secured = httptest.NewTLSServer(handler)
	defer secured.Close()
	document := func(path, text string) {
		pages[path+model.OpenIDConfiguration] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	names := func(path, uri string) { document(path, fmt.Sprintf(`{"issuer": "x", "jwks_uri": %q}`, uri)) }
	names("/named", server.URL+"/keys")
	names("/secure", secured.URL+"/moved")
	names("/lost", server.URL+"/missing")
	names("/file", "file:///etc/passwd")
	names("/long", "http://a.test/"+strings.Repeat("x", 2048))
	names("/again", server.URL+"/named"+model.OpenIDConfiguration)
	document("/none", "{}")
	document("/number", `{"jwks_uri": 5}`)
	document("/keys", set)
	pages["/far"+model.OpenIDConfiguration] = pages["/round"]
	pages["/large"+model.OpenIDConfiguration] = pages["/long"]
	roots := x509.NewCertPool()
	roots.AddCert(secured.Certificate())
	for uri, want := range map[string]string{
		server.URL + "/keys": "", secured.URL + "/keys": "", server.URL + "/moved": "",
		server.URL + "/empty":         "has no key that Envoy knows",
		server.URL + "/page":          "is no JSON Web Key Set",
		server.URL + "/long":          "has more than 262144 bytes",
		server.URL + "/missing":       "the answer is 404 Not Found, want 200",
		server.URL + "/round":         "there are more than 3",
		secured.URL + "/plain":        "want https, as it began",
		"file:///etc/passwd":          "want http://HOST/",
		"https:///keys":               "want http://HOST/",
		issuer(server.URL + "/named"): "", issuer(secured.URL + "/secure"): "", issuer(server.URL + "/secure/"): "",
		issuer(secured.URL + "/named"):  "by https names it: want https",
		issuer(server.URL + "/lost"):    model.OpenIDConfiguration + ": fetch keys of " + server.URL + "/missing: the answer is 404",
		issuer(server.URL + "/file"):    "want http://HOST/",
		issuer(server.URL + "/long"):    "jwks_uri of the answer has 2062 bytes, want 1 to 2048",
		issuer(server.URL + "/again"):   "has no key that Envoy knows",
		issuer(server.URL + "/none"):    "jwks_uri of the answer has 0 bytes",
		issuer(server.URL + "/keys"):    "jwks_uri of the answer has 0 bytes",
		issuer(server.URL + "/number"):  "is no OpenID configuration",
		issuer(server.URL + "/far"):     "there are more than 3",
		issuer(server.URL + "/large"):   "has more than 262144 bytes",
		issuer(server.URL + "/missing"): "is 404 Not Found",
	} {
		got, err := New(roots, true).Fetch(t.Context(), uri)
		if want == "" && (err != nil || got != taken) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v, want %q", uri, got, err, want)
		}
	}
	for uri, want := range map[string]string{server.URL + "/keys": "is an address inside", "http://user:secret@127.0.0.1:1/keys": "is an address inside"} {
		if _, err := New(nil, false).Fetch(t.Context(), uri); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", uri, err, want)
		}
	}
	if _, err := New(nil, true).Fetch(t.Context(), secured.URL+"/keys"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of unknown roots: %v", err)
	}
}

// issuer returns the address at which keys of an issuer are looked for.
func issuer(of string) string { return model.KeyURI(&security.JWTRule{Issuer: of}) }

// The last good keys stay across errors, however many; failures are repeated ever later, and good answers after twenty
// minutes.
func TestKnowledge(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k := &Cache{}
	if uri, _ := k.Next(now); uri != "" {
		t.Errorf("%s is next", uri)
	}
	k.Want(addresses("b", "a", "a"), now)
	if uri, at := k.Next(now); uri != "a" || !at.Equal(now) {
		t.Errorf("%s at %v is next", uri, at)
	}
	if !k.Learn("a", "one", nil, now) || k.Learn("a", "one", nil, now) || !k.Learn("b", "two", nil, now.Add(time.Second)) {
		t.Error("changes are not told")
	}
	now = now.Add(refresh)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		if uri, at := k.Next(now); uri != "a" || !at.Equal(now) {
			t.Errorf("failure %d: %s at %v is next, want %v", i, uri, at, now)
		}
		if k.Learn("a", "", errors.New("away"), now) || keysOf(k, "a") != "one" || k.Faults()["a"] != "away" {
			t.Errorf("failure %d: %q, %v", i, keysOf(k, "a"), k.Faults())
		}
		k.of["b"].next = now.Add(time.Hour)
		now = now.Add(want * time.Second)
	}
	if !k.Learn("a", "three", nil, now) || len(k.Faults()) > 0 || keysOf(k, "a") != "three" {
		t.Errorf("%q, %v", keysOf(k, "a"), k.Faults())
	}
	k.Want(addresses("a", "c"), now)
	if keysOf(k, "a") != "three" || keysOf(k, "b") != "" || k.Learn("b", "two", nil, now) {
		t.Error("what is named keeps its keys, and nothing else does")
	}
	many := addresses("a", "kept")
	many[1].Known = true
	for i := range MaxURIs + 3 {
		many = append(many, addresses(fmt.Sprintf("%05d", i))...)
	}
	if k.Want(many, now); len(k.of) != MaxURIs || len(k.refused) != 5 || keysOf(k, "a") != "three" || k.of["kept"] == nil {
		t.Errorf("%d are known, %d refused, one is %q, another %v: what is known leaves its place", len(k.of), len(k.refused), keysOf(k, "a"), k.of["kept"])
	}
}

func addresses(uris ...string) []model.KeyAddress { return addressesOf("", uris...) }

func addressesOf(namespace string, uris ...string) (out []model.KeyAddress) {
	for _, uri := range uris {
		out = append(out, model.KeyAddress{Namespace: namespace, URI: uri, Timeout: 5 * time.Second})
	}
	return out
}

// numbered returns addresses of a namespace: its name with a number.
func numbered(namespace string, n int) (out []model.KeyAddress) {
	for i := range n {
		out = append(out, addressesOf(namespace, fmt.Sprintf("%s%05d", namespace, i))...)
	}
	return out
}

// Namespaces share the places of the mesh evenly, however many URIs one of them has.
func TestShares(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	root := numbered("istio-system", 10)
	for i := range root {
		root[i].Root = true
	}
	all := func(of ...[]model.KeyAddress) []model.KeyAddress { return slices.Concat(of...) }
	for name, test := range map[string]struct {
		before, now []model.KeyAddress
		want        map[string]int // places by namespace
		refused     int
	}{
		"one namespace takes all":           {nil, numbered("evil", 1200), map[string]int{"evil": 1000}, 200},
		"a small one beside it":             {nil, all(numbered("evil", 1200), numbered("shop", 3)), map[string]int{"evil": 997, "shop": 3}, 203},
		"a small one that comes later":      {numbered("evil", 1200), all(numbered("evil", 1200), numbered("shop", 3)), map[string]int{"evil": 997, "shop": 3}, 203},
		"two large ones":                    {nil, all(numbered("evil", 1200), numbered("shop", 1200)), map[string]int{"evil": 500, "shop": 500}, 1400},
		"what a small one leaves is used":   {nil, all(numbered("a", 900), numbered("b", 100), numbered("c", 900)), map[string]int{"a": 450, "b": 100, "c": 450}, 900},
		"the root namespace first":          {nil, all(numbered("evil", 1200), root, numbered("a", 1200)), map[string]int{"a": 495, "evil": 495, "istio-system": 10}, 1410},
		"one URI of all has a single place": {nil, all(addressesOf("evil", "same"), addressesOf("shop", "same"), numbered("evil", 1200)), map[string]int{"evil": 1000, "shop": 1}, 201},
	} {
		k := &Cache{}
		k.Want(test.before, now)
		for _, a := range test.before {
			k.Learn(a.URI, "keys", nil, now)
		}
		k.Want(test.now, now)
		got := map[string]int{}
		for _, of := range k.of {
			for _, n := range of.named {
				got[n]++
			}
		}
		if !maps.Equal(got, test.want) || len(k.refused) != test.refused || len(k.of) > MaxURIs {
			t.Errorf("%s: %v, %d refused, want %v, %d", name, got, len(k.refused), test.want, test.refused)
		}
	}
}

// A namespace whose servers are silent leaves places to others, and theirs are asked at once.
func TestOthersHavePlaces(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k, all := &Cache{}, numbered("evil", 900)
	for i := range 20 {
		all = append(all, numbered(fmt.Sprintf("evil-%02d-", i), 40)...)
	}
	under := func() (out []Question) {
		for {
			uri, at := k.Next(now)
			if uri == "" || at.After(now) {
				return out
			}
			out = append(out, k.Ask(uri))
		}
	}
	k.Want(all[:900], now)
	if asked := under(); len(asked) != 3*(maxAsked-reserved)/4 {
		t.Errorf("%d questions of one namespace are under way", len(asked))
	}
	k.Want(all, now)
	under()
	k.Want(append(all, numbered("shop", 3)...), now.Add(time.Second))
	now = now.Add(time.Second)
	if asked := under(); len(asked) == 0 || asked[0].namespace != "shop" {
		t.Errorf("%d are under way, then %v: want one of the namespace that has none", k.asked, asked)
	}
}

// Questions are asked at once up to a number, and repeated ones take half of the places at most.
func TestPlaces(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k, all := &Cache{}, []model.KeyAddress(nil)
	for i := range 2 * 3 * (maxAsked - reserved) / 4 {
		all = append(all, addresses(fmt.Sprintf("%05d", i))...)
	}
	k.Want(all, now)
	ask := func() (out []Question) {
		for {
			uri, at := k.Next(now)
			if uri == "" || at.After(now) {
				return out
			}
			out = append(out, k.Ask(uri))
		}
	}
	first := ask()
	if len(first) != 3*(maxAsked-reserved)/4 || first[0].URI != "00000" {
		t.Fatalf("%d are asked, the first %v", len(first), first[0])
	}
	for _, q := range first {
		k.End(q)
		k.Learn(q.URI, "", errors.New("silent"), now)
	}
	now = now.Add(time.Minute)
	again, second := 0, ask()
	for _, q := range second {
		if k.of[q.URI].failures > 0 {
			again++
		}
	}
	if len(second) != 3*(maxAsked-reserved)/4 || again != 0 {
		t.Errorf("%d are asked, %d of them again: want those first that were never asked", len(second), again)
	}
	for _, q := range second {
		k.End(q)
		k.Learn(q.URI, "", errors.New("silent"), now)
	}
	now = now.Add(time.Minute)
	if third := ask(); len(third) != (maxAsked-reserved)/2 {
		t.Errorf("%d are asked again at once, want %d", len(third), (maxAsked-reserved)/2)
	}
	k.Want(append(all, addressesOf("other", "zz")...), now)
	if fourth := ask(); len(fourth) != 1 || fourth[0].URI != "zz" {
		t.Errorf("beside those %v are asked, want the new one", fourth)
	}
}

func keysOf(k *Cache, uri string) string {
	if of := k.of[uri]; of != nil {
		return of.keys
	}
	return ""
}
