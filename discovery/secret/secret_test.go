package secret

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"
)

func one(namespace, name, certificate string) Group {
	return Group{Secrets: map[Name]Secret{{namespace, name}: {Certificate: []byte(certificate)}}}
}

// One name has one owner, independent of the order of the sources; the others are reported with the names that they
// lost.
func TestUnite(t *testing.T) {
	all, losers := Unite(map[string]map[string]Group{
		"files":      {"shop/door": one("shop", "door", "of a file"), "shop/other": one("shop", "other", "x")},
		"kubernetes": {"uid-7": one("shop", "door", "of Kubernetes"), "uid-8": one("bank", "door", "y")},
		"authority":  {"broken": {Faults: []string{"no answer"}}},
	})
	for name, want := range map[Name]string{{"shop", "door"}: "of a file", {"shop", "other"}: "x", {"bank", "door"}: "y"} {
		if got := string(all[name.Namespace][name.Name].Certificate); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if want := []string{"uid-7: the secret shop/door is not served, source files has one of that name"}; !slices.Equal(losers["kubernetes"], want) ||
		len(losers["files"]) > 0 || len(losers["authority"]) > 0 {
		t.Errorf("losers: %q", losers)
	}
}

func TestGroupsThatAreTheSame(t *testing.T) {
	a := one("shop", "door", "c")
	for name, test := range map[string]struct {
		b    Group
		same bool
	}{
		"equal":           {one("shop", "door", "c"), true},
		"other bytes":     {one("shop", "door", "d"), false},
		"another name":    {one("shop", "window", "c"), false},
		"nothing":         {Group{}, false},
		"another account": {Group{Secrets: map[Name]Secret{{"shop", "door"}: {Certificate: []byte("c"), Accounts: []string{"a"}}}}, false},
	} {
		if a.Same(test.b) != test.same {
			t.Errorf("%s: the same: %t", name, !test.same)
		}
	}
	if !(Group{Faults: []string{"x"}}).Malformed() || a.Malformed() || (Group{}).Malformed() {
		t.Error("malformed is a group with faults and without secrets")
	}
}

// A renewed certificate has another mark, with its serial number; bytes that are no certificate have a hash.
func TestMark(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	made := func(serial int64) []byte {
		c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: until}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	a, b := MarkOf(made(26)), MarkOf(made(27))
	if a.Serial != "1a" || b.Serial != "1b" || !a.Until.Equal(until) || a.SHA256 == b.SHA256 {
		t.Errorf("%+v, %+v", a, b)
	}
	for _, text := range []string{"", "roots", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if m := MarkOf([]byte(text)); m.Serial != "" || len(m.SHA256) != 64 || !m.Until.IsZero() {
			t.Errorf("%q: %+v", text, m)
		}
	}
}
