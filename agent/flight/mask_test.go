package flight

import (
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	const key = `-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\n`
	for _, test := range []struct {
		name, bootstrap, want string
	}{
		{"nothing secret", `{"node":{"id":"a","n":12345678901234567890},"x":[1,true,null,"y"]}`, `{"node":{"id":"a","n":12345678901234567890},"x":[1,true,null,"y"]}`},
		{
			"a TLS certificate: its key and password, not its chain",
			`{"tls_certificate":{"certificate_chain":{"inline_string":"cert"},"private_key":{"inline_string":"k"},"password":{"inline_bytes":"cA=="}}}`,
			`{"tls_certificate":{"certificate_chain":{"inline_string":"cert"},"password":{"inline_bytes":"[masked]"},"private_key":{"inline_string":"[masked]"}}}`,
		},
		{"the other spelling", `{"privateKey":{"inlineString":"k"}}`, `{"privateKey":{"inlineString":"[masked]"}}`},
		{"a file of a key stays", `{"private_key":{"filename":"/etc/certs/key.pem"}}`, `{"private_key":{"filename":"/etc/certs/key.pem"}}`},
		{"a key in a place of no name", `{"lua":{"inline_string":"x ` + key + `y"}}`, `{"lua":{"inline_string":"x [masked]\ny"}}`},
		{"half a key", `{"a":"-----BEGIN PRIVATE KEY-----\nMHc"}`, `{"a":"[masked]"}`},
		{"tickets", `{"session_ticket_keys":{"keys":[{"inline_bytes":"AA=="},{"filename":"f"}]}}`, `{"session_ticket_keys":{"keys":[{"inline_bytes":"[masked]"},{"filename":"f"}]}}`},
		{"deep below a secret", `{"generic_secret":{"any":{"inline_string":"s"}}}`, `{"generic_secret":{"any":{"inline_string":"[masked]"}}}`},
		{"a list of tokens", `{"tokens":["a","b"]}`, `{"tokens":["[masked]","[masked]"]}`},
		{"numbers are none", `{"token_bucket":{"max_tokens":10,"fill_interval":"1s"}}`, `{"token_bucket":{"fill_interval":"1s","max_tokens":10}}`},
		{"gRPC credentials", `{"call_credentials":[{"access_token":"abc"}]}`, `{"call_credentials":[{"access_token":"[masked]"}]}`},
		{
			"headers", `{"initial_metadata":[{"key":"Authorization","value":"x"},{"key":"x-api-key","raw_value":"eA=="},{"key":"accept","value":"y"}]}`,
			`{"initial_metadata":[{"key":"Authorization","value":"[masked]"},{"key":"x-api-key","raw_value":"[masked]"},{"key":"accept","value":"y"}]}`,
		},
		{"metadata of a node", `{"metadata":{"SOME_API_KEY":"x","NAMESPACE":"default"}}`, `{"metadata":{"NAMESPACE":"default","SOME_API_KEY":"[masked]"}}`},
		{"a URL with a password", `{"uri":"https://me:pw@host/x"}`, `{"uri":"https://[masked]@host/x"}`},
		{"a URL without", `{"uri":"spiffe://cluster.local/ns/a/sa/b"}`, `{"uri":"spiffe://cluster.local/ns/a/sa/b"}`},
		{"a bearer anywhere", `{"x":"Bearer abcdef123"}`, `{"x":"Bearer [masked]"}`},
		{"a JSON web token anywhere", `{"x":"a=eyJhbGciOiJI.eyJpc3MiOi.c2ln b"}`, `{"x":"a=[masked] b"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Mask([]byte(test.bootstrap))
			if err != nil || string(got) != test.want {
				t.Errorf("Mask:\n got %s, %v\nwant %s", got, err, test.want)
			}
			if again, err := Mask(got); err != nil || string(again) != string(got) {
				t.Errorf("Mask of what is masked: %s, %v", again, err)
			}
		})
	}
	if got, err := Mask([]byte("node: {id: a}")); err == nil {
		t.Errorf("Mask of YAML: %s, want an error: it cannot be read", got)
	}
}

func TestMaskText(t *testing.T) {
	const line = "request headers complete:\n':path', '/'\n'authorization', 'Digest abc'\n'cookie', 'a=b'\n'x', 'y'\n"
	got := MaskText(line)
	if strings.Contains(got, "abc") || strings.Contains(got, "a=b") || !strings.Contains(got, "':path', '/'") || !strings.Contains(got, "'x', 'y'") {
		t.Errorf("MaskText: %q", got)
	}
}
