package ca

import (
	"crypto/elliptic"
	"strings"
	"testing"
	"time"
)

func TestJoinTokens(t *testing.T) {
	mine, other := readKey(t, request(t, ecKey(t, elliptic.P256()))), readKey(t, request(t, ecKey(t, elliptic.P256())))
	all, many, text, err := Tokens{}.Add("shop", "web", time.Minute, false, now)
	check(t, err)
	all, once, single, err := all.Add("shop", "till", time.Minute, true, now)
	check(t, err)
	all, _, gone, err := all.Add("shop", "gone", time.Minute, false, now)
	check(t, err)
	if all, err = all.Revoke(all[2].ID); err != nil {
		t.Fatal(err)
	}
	stored, err := all.Bytes()
	check(t, err)
	for _, secret := range []string{text, single, gone} {
		if strings.Contains(string(stored), secret[len(secret)-20:]) {
			t.Error("a secret is stored")
		}
	}
	if all, err = ReadTokens(stored); err != nil {
		t.Fatal(err)
	}
	if all, _, err = all.Redeem(single, mine, now); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		key  Key
		at   time.Time
		want string // an ID, or the end of an error
	}{
		"one that may be used often":      {text, mine, now, many.ID},
		"by another":                      {text, other, now, many.ID},
		"its answer was lost":             {single, mine, now, once.ID},
		"used for another key":            {single, other, now, "was used for another key at 2026-03-01T12:00:00Z"},
		"expired":                         {text, mine, now.Add(time.Minute), "is expired"},
		"used once, and expired":          {single, mine, now.Add(time.Minute), "is expired"},
		"revoked":                         {gone, mine, now, "is revoked"},
		"another secret":                  {text[:len(text)-4] + "AAAA", mine, now, "has another secret"},
		"the ID alone":                    {"pljoin-" + many.ID, mine, now, "is malformed"},
		"an empty secret":                 {"pljoin-" + many.ID + "-", mine, now, "has another secret"},
		"the hash for the secret":         {"pljoin-" + many.ID + "-" + many.Hash, mine, now, "has another secret"},
		"another ID":                      {"pljoin-0000000000000000-" + text[24:], mine, now, "is not known"},
		"none":                            {"", mine, now, "is malformed"},
		"the secret of another account's": {"pljoin-" + once.ID + text[len("pljoin-")+16:], mine, now, "has another secret"},
	} {
		_, got, err := all.Redeem(c.text, c.key, c.at)
		if err == nil && got.ID != c.want || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
		if err != nil && len(c.text) > 30 && strings.Contains(err.Error(), c.text[24:]) {
			t.Errorf("%s: the error has the secret in it: %v", name, err)
		}
	}
}

func TestJoinTokensAreBounded(t *testing.T) {
	var all Tokens
	var err error
	for range MaxTokens {
		all, _, _, err = all.Add("shop", "web", time.Minute, false, now)
		check(t, err)
	}
	if _, _, _, err := all.Add("shop", "web", time.Minute, false, now); err == nil || !strings.Contains(err.Error(), "1000 join tokens are valid") {
		t.Errorf("one more: %v", err)
	}
	for range 3 {
		for i := range all {
			all[i].Revoked = true
		}
		for range MaxTokens {
			all, _, _, err = all.Add("shop", "web", time.Minute, false, now)
			check(t, err)
		}
	}
	if len(all) > 2*MaxTokens {
		t.Errorf("%d tokens are kept, want at most %d", len(all), 2*MaxTokens)
	}
	all, _, _, err = all.Add("shop", "web", time.Minute, false, now.Add(rememberToken+2*time.Minute))
	check(t, err)
	if len(all) != 1 {
		t.Errorf("%d tokens a day after they have ended, want the new one", len(all))
	}
	for name, c := range map[string]struct {
		namespace, account string
		ttl                time.Duration
		want               string
	}{
		"a wrong namespace": {"shop/..", "web", time.Minute, "is not a name of Kubernetes"},
		"a wrong account":   {"shop", "Web", time.Minute, "is not a name of Kubernetes"},
		"no life":           {"shop", "web", 0, "a life of 0s"},
		"a long life":       {"shop", "web", LongestToken + 1, "at most 720h0m0s"},
	} {
		if _, _, _, err := all.Add(c.namespace, c.account, c.ttl, false, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := all.Revoke("no"); err == nil || !strings.Contains(err.Error(), "discovery token list") {
		t.Error(err)
	}
	if _, err := ReadTokens([]byte(`[{"id":`)); err == nil {
		t.Error("half a file is read")
	}
}

func FuzzRedeem(f *testing.F) {
	key := readKey(f, request(f, ecKey(f, elliptic.P256())))
	all, _, text, err := Tokens{}.Add("shop", "web", time.Minute, true, now)
	check(f, err)
	f.Add("pljoin-")
	f.Add(text[:len(text)-1])
	f.Add("pljoin-" + all[0].ID + "-" + all[0].Hash)
	f.Fuzz(func(t *testing.T, given string) {
		if _, _, err := all.Redeem(given, key, now); err == nil && given != text {
			t.Errorf("%q is taken", given)
		}
	})
}
