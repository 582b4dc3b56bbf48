package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// What is wrong in a file of issuers is refused, with its place.
func TestRead(t *testing.T) {
	entry := func(identity string) string {
		return "issuers:\n- issuer: i\n  jwksFile: f\n  identities:\n  - " + identity + "\n"
	}
	for name, of := range map[string]struct{ text, fault string }{
		"good":                  {two, ""},
		"empty":                 {"", "has no issuers"},
		"no YAML":               {"a: [", "yaml"},
		"an unknown field":      {"issuers:\n- isuer: i\n", "line 2: field isuer not found"},
		"two documents":         {two + "---\na: b\n", "has a second document"},
		"no name":               {"issuers:\n- jwksFile: f\n", "issuers[0]: issuer is empty"},
		"twice":                 {two + "- {issuer: " + nomad + ", jwksFile: f, identities: [{claims: {a: b}, namespace: n, serviceAccount: s}]}\n", "is there twice"},
		"no file":               {"issuers:\n- issuer: i\n", `issuer "i": jwksFile is empty`},
		"no audience":           {"issuers:\n- {issuer: i, jwksFile: f, audiences: []}\n", `issuer "i": audiences are []`},
		"an empty audience":     {"issuers:\n- {issuer: i, jwksFile: f, audiences: ['']}\n", `audiences are [""]`},
		"no identity":           {"issuers:\n- {issuer: i, jwksFile: f}\n", "identities are empty"},
		"no claim":              {entry("{namespace: n, serviceAccount: s}"), `issuer "i": identities[0]: claims are empty, so that every token`},
		"no account":            {entry("{claims: {a: b}, namespace: n}"), "serviceAccount is given 0 times, want once"},
		"an account twice":      {entry("{claims: {a: '{serviceAccount}', b: '{serviceAccount}'}, namespace: n}"), "serviceAccount is given 2 times"},
		"fixed and taken":       {entry("{claims: {a: '{namespace}'}, namespace: n, serviceAccount: s}"), "namespace is given 2 times"},
		"no name of Kubernetes": {entry("{claims: {a: b}, namespace: a/b, serviceAccount: s}"), `namespace "a/b" is not a name`},
		"a number":              {entry("{claims: {a: 1}}"), `line 5: claim ["a"] is "1", want a text`},
		"a list":                {entry("{claims: {a: [b]}}"), "want a text"},
		"a claim twice":         {entry("{claims: {a: b, a: c}}"), `line 5: claim ["a"] is there twice`},
		"an alias":              {entry("{claims: {a: &x b, c: *x}}"), `line 5: claim ["c"] is "x", want a text`},
		"no mapping":            {entry("{claims: [a]}"), "line 5: claims are no mapping"},
		"braces":                {entry("{claims: {a: '{ns}'}}"), `the pattern "{ns}" has braces`},
		"nothing between":       {entry("{claims: {a: '{namespace}{serviceAccount}'}}"), `has "" between its parts`},
		"a '-' between":         {entry("{claims: {a: '{namespace}-{serviceAccount}'}}"), `has "-" between its parts`},
		"a part twice":          {entry("{claims: {a: '{namespace}:{namespace}'}}"), "has a part twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(of.text))
			if (err == nil) != (of.fault == "") || err != nil && !strings.Contains(err.Error(), of.fault) {
				t.Errorf("%v, want %q", err, of.fault)
			}
		})
	}
}

// A pattern takes what stands at its parts, and nothing else.
func TestPattern(t *testing.T) {
	for _, of := range []struct{ pattern, text, want string }{
		{"a", "a", "|"},
		{"a", "ab", ""},
		{"a", "", ""},
		{"{namespace}", "x", "x|"},
		{"x-{namespace}-y", "x-n-y", "n|"},
		{"x-{namespace}-y", "x-y", ""},
		{"x-{namespace}-y", "x-n-z", ""},
		{"aa{namespace}aa", "aaa", ""},
		{"{serviceAccount}@{namespace}.test", "web@shop.test", "shop|web"},
		{"{serviceAccount}@{namespace}.test", "web.shop.test", ""},
		{"{namespace}/{serviceAccount}", "a/b/c", "a|b/c"}, // which is no name
	} {
		p, err := newPattern(of.pattern)
		if err != nil {
			t.Fatal(err)
		}
		found, got := map[string]string{}, ""
		if p.match(of.text, found) {
			got = found[namespacePart] + "|" + found[accountPart]
		}
		if got != of.want {
			t.Errorf("%s of %s: %q, want %q", of.pattern, of.text, got, of.want)
		}
	}
}

// Keys that sign no token are left out, with a note.
func TestReadKeys(t *testing.T) {
	one, weak := newEC(t, elliptic.P256(), jose.ES256, "a"), newRSA(t, 1024, jose.RS256, "w")
	with := func(k jose.JSONWebKey, change func(*jose.JSONWebKey)) jose.JSONWebKey {
		change(&k)
		return k
	}
	private := jose.JSONWebKey{Key: one.key, KeyID: "p"}
	symmetric := jose.JSONWebKey{Key: []byte("0123456789abcdef"), KeyID: "o", Algorithm: "HS256"}
	for name, of := range map[string]struct {
		text  string
		keys  int
		note  string
		fault string
	}{
		"one":                     {text: string(set(t, one.jwk())), keys: 1},
		"symmetric beside it":     {text: string(set(t, symmetric, one.jwk())), keys: 1, note: "keys[0]: is symmetric"},
		"private beside it":       {text: string(set(t, private, one.jwk())), keys: 1, note: "keys[0]: is a private key"},
		"weak beside it":          {text: string(set(t, weak.jwk(), one.jwk())), keys: 1, note: "keys[0]: is RSA of 1024 bits"},
		"for encryption":          {text: string(set(t, one.jwk(), with(one.jwk(), func(k *jose.JSONWebKey) { k.Use, k.KeyID = "enc", "c" }))), keys: 1, note: `keys[1]: is for the use "enc"`},
		"for another algorithm":   {text: string(set(t, one.jwk(), with(one.jwk(), func(k *jose.JSONWebKey) { k.Algorithm, k.KeyID = "RS256", "c" }))), keys: 1, note: `keys[1]: is for the algorithm "RS256"`},
		"of an unknown kind":      {text: `{"keys":[{"kty":"XX"},` + strings.TrimPrefix(string(set(t, one.jwk())), `{"keys":[`), keys: 1, note: `keys[0]: has the kty "XX"`},
		"symmetric alone":         {text: string(set(t, symmetric)), note: "keys[0]: is symmetric", fault: "has no key by which"},
		"a kid twice":             {text: string(set(t, one.jwk(), one.jwk())), fault: `the kid "a" is there twice`},
		"none":                    {text: `{"keys":[]}`, fault: "has no key"},
		"no set":                  {text: `{}`, fault: "has no key"},
		"half":                    {text: `{"keys":[{`, fault: "is not JSON"},
		"nothing":                 {text: "", fault: "is not JSON"},
		"a point beside the line": {text: `{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}`, note: "is not 32 bytes", fault: "has no key"},
		"a point off the curve":   {text: `{"keys":[{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}]}`, note: "is no point", fault: "has no key"},
		"many":                    {text: `{"keys":[` + strings.Repeat(`{},`, mostKeys) + `{}]}`, fault: "has 65 keys, at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			keys, notes, err := readKeys([]byte(of.text))
			if len(keys) != of.keys || !strings.Contains(strings.Join(notes, ";"), of.note) || of.keys > 0 && of.note == "" && len(notes) > 0 {
				t.Errorf("%d keys, %q; want %d, %q", len(keys), notes, of.keys, of.note)
			}
			if (err == nil) != (of.fault == "") || err != nil && !strings.Contains(err.Error(), of.fault) {
				t.Errorf("%v, want %q", err, of.fault)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(two), "system:serviceaccount:shop:web")
	f.Fuzz(func(t *testing.T, text []byte, subject string) {
		issuers, err := Read(text)
		if err != nil {
			return
		}
		for _, i := range issuers {
			id, err := i.identify(map[string]any{"sub": subject, "a": map[string]any{"b": subject}}, "cluster.local", "istio-system")
			if err == nil {
				if _, err := ca.NewIdentity(id.TrustDomain, id.Namespace, id.ServiceAccount); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func FuzzReadKeys(f *testing.F) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(set(f, jose.JSONWebKey{Key: key.Public(), KeyID: "a"}))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, _, _ := readKeys(text)
		for _, k := range keys {
			if len(k.fits) == 0 || slices.ContainsFunc(k.fits, func(a string) bool { return !slices.Contains(algorithms, a) }) {
				t.Errorf("a key for %q", k.fits)
			}
		}
	})
}

// Keys follow their file; one that is broken or away leaves those of before, and is logged.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one, two := newEC(t, elliptic.P256(), jose.ES256, "a"), newEC(t, elliptic.P256(), jose.ES256, "b")
	write("issuers.yaml", []byte("issuers:\n- issuer: "+nomad+"\n  jwksFile: keys.json\n  identities:\n  - claims: {sub: \"{namespace}/{serviceAccount}\"}\n"))
	var log strings.Builder
	i, err := Open(filepath.Join(dir, "issuers.yaml"), func() string { return "istio-system" }, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	asks := func(step string, faults int, s signer, fault string) {
		t.Helper()
		_, err := i.Identify(t.Context(), s.token(good(map[string]any{"sub": "shop/web"})), "cluster.local")
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", step, err, fault)
		}
		if all := i.Faults(); len(all) != faults {
			t.Errorf("%s: faults %q, want %d", step, all, faults)
		}
	}
	asks("no file", 1, one, "are not known")
	write("keys.json", set(t, one.jwk()))
	i.Reload()
	asks("a file", 0, one, "")
	asks("a file, another key", 0, two, "has the kid")
	write("keys.json", []byte(`{"keys":[`))
	i.Reload()
	i.Reload()
	asks("half a file", 1, one, "")
	if n := strings.Count(log.String(), "keys of an issuer not read"); n != 2 {
		t.Errorf("said %d times that keys are not read, want once for each reason:\n%s", n, log.String())
	}
	write("keys.json", set(t, two.jwk()))
	i.Reload()
	i.Reload()
	asks("another key", 0, two, "")
	asks("another key, the one of before", 0, one, "has the kid")
	if n := strings.Count(log.String(), "keys of an issuer read"); n != 2 {
		t.Errorf("said %d times that keys are read, want twice:\n%s", n, log.String())
	}
	if files := i.Files(); !slices.Equal(files, []string{filepath.Join(dir, "keys.json")}) {
		t.Errorf("files %q", files)
	}
}
