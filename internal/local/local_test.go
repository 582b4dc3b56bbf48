package local

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"127.0.0.6":        false, // Envoy's source address for traffic from other hosts
		"::ffff:127.0.0.6": false,
		"::6":              false,
		"127.0.0.0":        false,
		"127.0.0.2":        false,
		"127.255.255.255":  false,
		"10.0.0.1":         false,
		"0.0.0.0":          false,
		"::":               false,
		"fe80::1%lo":       false,
	} {
		if got := Address(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
	if Address(netip.Addr{}) {
		t.Error("no address is local")
	}
}

func TestPeerAndHost(t *testing.T) {
	for text, want := range map[string][2]bool{ // as a peer, as a Host
		"127.0.0.1:80":        {true, true},
		"[::1]:80":            {true, true},
		"[::ffff:7f00:1]:80":  {true, true},
		"127.0.0.6:80":        {false, true}, // a server may listen there; requests from there are from other hosts
		"127.0.0.1":           {false, true},
		"::1":                 {false, true},
		"[::1]":               {false, true},
		"localhost":           {false, true},
		"LocalHost:15000":     {false, true},
		"localhost.evil.test": {false, false},
		"127.0.0.1.nip.io:80": {false, false},
		"2130706433":          {false, false},
		"10.0.0.1:80":         {false, false},
		"@":                   {false, false},
		"":                    {false, false},
	} {
		if got := [2]bool{Peer(text), Host(text)}; got != want {
			t.Errorf("%q: peer and host %t, want %t", text, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	for name, test := range map[string]struct {
		remote, host string
		headers      map[string]string
		want         string // "" for local
	}{
		"a program":             {"127.0.0.1:9", "localhost:8080", nil, ""},
		"over IPv6":             {"[::1]:9", "[::1]:8080", nil, ""},
		"passed in by Envoy":    {"127.0.0.6:9", "127.0.0.1:8080", nil, "asked from 127.0.0.6:9, want 127.0.0.1 or ::1"},
		"from afar":             {"10.0.0.1:9", "127.0.0.1:8080", nil, "asked from 10.0.0.1:9, want 127.0.0.1 or ::1"},
		"by a rebound name":     {"127.0.0.1:9", "evil.test:8080", nil, `asked as host "evil.test:8080", want localhost or a loopback address`},
		"by another page":       {"127.0.0.1:9", "localhost:8080", map[string]string{"Origin": "http://evil.test"}, `asked by a page of "http://evil.test"`},
		"by another port":       {"127.0.0.1:9", "localhost:8080", map[string]string{"Origin": "http://localhost:1"}, `asked by a page of "http://localhost:1"`},
		"by a page of no place": {"127.0.0.1:9", "localhost:8080", map[string]string{"Origin": "null"}, `asked by a page of "null"`},
		"by its own page":       {"127.0.0.1:9", "localhost:8080", map[string]string{"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"}, ""},
		"typed into a browser":  {"127.0.0.1:9", "localhost:8080", map[string]string{"Sec-Fetch-Site": "none"}, ""},
		"an image of a page":    {"127.0.0.1:9", "localhost:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, "asked by a page of another site (Sec-Fetch-Site: cross-site)"},
		"passed on":             {"127.0.0.1:9", "localhost:8080", map[string]string{"X-Forwarded-For": "10.0.0.1"}, "passed on by a proxy"},
		"passed on, RFC 7239":   {"127.0.0.1:9", "localhost:8080", map[string]string{"Forwarded": "for=10.0.0.1"}, "passed on by a proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr, r.Host = test.remote, test.host
			for key, value := range test.headers {
				r.Header.Set(key, value)
			}
			got := ""
			if err := Request(r); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
