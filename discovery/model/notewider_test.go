package model

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// A server of HTTPS that asks for more than a wider one at its port is named, where requests for its host are routed within the wider one's
// TLS. Those for one that requires a client's certificate are answered 421.
func TestWiderServers(t *testing.T) {
	const (
		simple, mutual, optional = networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL
		passthrough              = networking.ServerTLSSettings_PASSTHROUGH
		tls10, tls12, tls13      = networking.ServerTLSSettings_TLSV1_0, networking.ServerTLSSettings_TLSV1_2, networking.ServerTLSSettings_TLSV1_3
	)
	type settings = networking.ServerTLSSettings
	server := func(host string, tls *settings) *networking.Server {
		return &networking.Server{Port: &networking.Port{Number: 443, Name: host, Protocol: "HTTPS"}, Hosts: []string{host}, Tls: tls}
	}
	strong := []string{"ECDHE-ECDSA-AES256-GCM-SHA384"}
	for name, test := range map[string]struct {
		wide, narrow *settings
		change       func(wide, narrow *networking.Server)
		want         string // the path of the note
	}{
		"OPTIONAL_MUTUAL":                {&settings{Mode: simple}, &settings{Mode: optional}, nil, "mode"},
		"OPTIONAL_MUTUAL in both":        {&settings{Mode: optional}, &settings{Mode: optional}, nil, ""},
		"below MUTUAL":                   {&settings{Mode: mutual}, &settings{Mode: optional}, nil, ""},
		"MUTUAL, which is answered 421":  {&settings{Mode: simple}, &settings{Mode: mutual, MinProtocolVersion: tls13}, nil, ""},
		"a certificate of its own":       {&settings{Mode: simple, CredentialName: "a"}, &settings{Mode: simple, CredentialName: "b"}, nil, ""},
		"a newer version":                {&settings{Mode: simple}, &settings{Mode: simple, MinProtocolVersion: tls13}, nil, "minProtocolVersion"},
		"the default, beside an old one": {&settings{Mode: simple, MinProtocolVersion: tls10}, &settings{Mode: simple}, nil, "minProtocolVersion"},
		"the default, in words":          {&settings{Mode: simple}, &settings{Mode: simple, MinProtocolVersion: tls12}, nil, ""},
		"ciphers":                        {&settings{Mode: simple}, &settings{Mode: simple, CipherSuites: strong}, nil, "cipherSuites"},
		"more ciphers":                   {&settings{Mode: simple, CipherSuites: strong}, &settings{Mode: simple, CipherSuites: append(strong, "AES128-SHA")}, nil, ""},
		"other bytes":                    {&settings{Mode: passthrough}, &settings{Mode: optional}, nil, ""},
		"every host": {&settings{Mode: simple}, &settings{Mode: optional}, func(wide, _ *networking.Server) {
			wide.Hosts = []string{"shop/*"}
		}, "mode"},
		"another domain": {&settings{Mode: simple}, &settings{Mode: optional}, func(wide, _ *networking.Server) {
			wide.Hosts = []string{"*.other.test"}
		}, ""},
		"another port":    {&settings{Mode: simple}, &settings{Mode: optional}, func(wide, _ *networking.Server) { wide.Port.Number = 444 }, ""},
		"another address": {&settings{Mode: simple}, &settings{Mode: optional}, func(wide, _ *networking.Server) { wide.Bind = "10.0.0.1" }, ""},
		"plain text":      {nil, &settings{Mode: optional}, func(wide, _ *networking.Server) { wide.Port.Protocol = "HTTP" }, ""},
		"bytes of TLS":    {&settings{Mode: simple}, &settings{Mode: optional}, func(wide, _ *networking.Server) { wide.Port.Protocol = "TLS" }, ""},
	} {
		wide, narrow := server("*.test", test.wide), server("b.test", test.narrow)
		if test.change != nil {
			test.change(wide, narrow)
		}
		gateway := func(name string, servers ...*networking.Server) *Object {
			return &Object{Meta: Meta{Kind: "Gateway", Namespace: "shop", Name: name}, Spec: &networking.Gateway{Selector: map[string]string{"app": "gw"}, Servers: servers}}
		}
		rule := func(host string) *Object {
			return &Object{Meta: Meta{Kind: "VirtualService", Namespace: "shop", Name: "r"}, Spec: &networking.VirtualService{
				Hosts: []string{host}, Gateways: []string{"shop/wide"}, Http: []*networking.HTTPRoute{{Redirect: &networking.HTTPRedirect{}}},
			}}
		}
		for form, objects := range map[string][]*Object{
			"one Gateway":               {gateway("one", wide, narrow)},
			"two":                       {gateway("wide", wide), gateway("narrow", narrow), rule("b.test")},
			"two, no route in the wide": {gateway("wide", wide), gateway("narrow", narrow), rule("c.test")},
		} {
			got, want := "", test.want
			if form == "two, no route in the wide" {
				want = ""
			}
			for _, n := range New(slices.Values([]Group{{Objects: objects}})).Notes() {
				if n.Code == WiderServer {
					got += n.Path
				}
			}
			if want != "" {
				if want = "spec.servers[0].tls." + want; form == "one Gateway" {
					want = "spec.servers[1].tls." + test.want
				}
			}
			if got != want {
				t.Errorf("%s, %s: noted at %q, want %q", name, form, got, want)
			}
		}
	}
}
