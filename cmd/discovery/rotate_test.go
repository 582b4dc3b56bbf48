package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A running discovery takes a rotation up: answers have both roots, certificates are still of the old one, and a restart goes on. An abort is followed too.
func TestServeRotates(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "ca"), freeAddress(t)
	arguments := []string{"--configDir", t.TempDir(), "--ca", "--caDir", dir, "--secureGRPCAddr", address}
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, arguments...)
	c := newCaller(t, address, dir)
	pair := c.certificate(token, nil)
	roots := func(want int) {
		t.Helper()
		if err := lab.Eventually(30*time.Second, func() error {
			_, out, err := c.ask("", pair)
			if text, _ := out["roots"].(string); err != nil || strings.Count(text, "BEGIN") != want {
				return fmt.Errorf("%v %v, want %d roots", out, err, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	roots(1)
	if out := command(t, "ca", "rotate", "--caDir", dir); !strings.Contains(out, ", begun: ") {
		t.Errorf("rotate says %q", out)
	}
	roots(2)
	if renewed := c.certificate("", pair); string(renewed.Leaf.AuthorityKeyId) != string(pair.Leaf.AuthorityKeyId) {
		t.Error("the new root has signed while agents do not trust it")
	}
	if out := command(t, "ca", "rotate", "--caDir", dir); !strings.Contains(out, ", trust: ") || !strings.Contains(out, "the new root signs at") {
		t.Errorf("rotate says %q", out)
	}
	if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "the root of --caDir is being rotated, trust: ") {
		t.Errorf("/ready?verbose does not name the rotation:\n%s", page)
	}
	s.stop(t)
	s = startServe(t, arguments...)
	code, both := c.trusted(pair, nil)
	if code != http.StatusOK || bytes.Count(both, []byte("BEGIN")) != 2 {
		t.Errorf("the roots are %d %s", code, both)
	}
	if code, _ := c.trusted(pair, both); code != http.StatusNotModified { // it is counted, though a discovery of before has signed it
		t.Errorf("a caller that has the roots gets %d", code)
	}
	if err := lab.Eventually(30*time.Second, func() error {
		if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "1 of 1 certificates that are known came with both roots") {
			return errors.New(page)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	roots(2)
	if said := command(t, "ca", "rotate", "--abort", "--caDir", dir); !strings.Contains(said, "is aborted") {
		t.Errorf("an abort says %q", said)
	}
	roots(1)
	if text, err := os.ReadFile(filepath.Join(dir, "root-cert.pem")); err != nil || strings.Count(string(text), "BEGIN") != 1 {
		t.Errorf("root-cert.pem: %v\n%s", err, text)
	}
	s.stop(t)
}

// trusted asks for the roots with a certificate, and says which roots it has.
func (c *caller) trusted(with *tls.Certificate, have []byte) (code int, roots []byte) {
	c.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.roots, ServerName: "localhost", Certificates: []tls.Certificate{*with}}}
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, fmt.Sprintf("https://%s/v1/roots?have=%x", c.address, sha256.Sum256(have)), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var out struct{ Roots string }
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil && response.StatusCode == http.StatusOK {
		c.t.Fatal(err)
	}
	return response.StatusCode, []byte(out.Roots)
}

// A rotation comes to its end under a running discovery: each certificate that lives is taken all the time.
func TestServeEndsARotation(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "ca"), freeAddress(t)
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, "--configDir", t.TempDir(), "--ca", "--caDir", dir, "--secureGRPCAddr", address)
	c := newCaller(t, address, dir)
	old := c.certificate(token, nil)
	command(t, "ca", "rotate", "--caDir", dir)
	is := func(phase string) {
		t.Helper()
		if err := lab.Eventually(30*time.Second, func() error {
			if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "is being rotated, "+phase) {
				return fmt.Errorf("phase %s is not there: %s", phase, page)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	past := func(names ...string) { // as if a life had passed
		t.Helper()
		path, values := filepath.Join(dir, "rotation.json"), map[string]any{}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &values)
		}
		for i, name := range names {
			values[name] = time.Now().Add(time.Duration(i-100) * time.Hour)
		}
		if err == nil {
			text, err = json.Marshal(values)
		}
		if err == nil {
			err = os.WriteFile(path+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	is("trust")
	_, out, err := c.ask("", old)
	if err != nil {
		t.Fatal(err)
	}
	past("began")
	is("leaves")
	young := c.certificate("", old) // of a caller that trusts the old root alone: discovery's own certificate is still of that
	if string(young.Leaf.AuthorityKeyId) == string(old.Leaf.AuthorityKeyId) {
		t.Error("the old root still signs")
	}
	c.certificate("", old)
	c.roots.AppendCertsFromPEM([]byte(out["roots"].(string)))
	past("began", "switched", "until")
	if err := lab.Eventually(30*time.Second, func() error {
		_, out, err := c.ask("", young)
		if text, _ := out["roots"].(string); err != nil || strings.Count(text, "BEGIN") != 1 {
			return fmt.Errorf("%v %v, want one root", out, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if code, _, err := c.ask("", old); err == nil && code == 200 {
		t.Error("a certificate of a root that is forgotten is taken")
	}
	if page := s.get(t, s.web, "/ready?verbose"); strings.Contains(page, "rotated") {
		t.Errorf("the rotation has ended, and is named:\n%s", page)
	}
	if out := command(t, "ca", "rotate", "--caDir", dir); !strings.Contains(out, ", begun: ") {
		t.Errorf("another rotation says %q", out)
	}
	s.stop(t)
}

// Files of another authority sign when they are trusted, also after a restart; with --now at once, and the command prints what breaks.
func TestServeFollowsReplacedFiles(t *testing.T) {
	dir, state, address := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "state"), freeAddress(t)
	arguments := []string{"--configDir", t.TempDir(), "--ca", "--caDir", dir, "--stateDir", state, "--secureGRPCAddr", address}
	token := command(t, "token", "create", "--namespace", "shop", "--service-account", "web", "--caDir", dir)
	s := startServe(t, arguments...)
	c := newCaller(t, address, dir)
	old := c.certificate(token, nil)
	s.stop(t)
	other, err := lab.NewAuthority("another root")
	if err == nil {
		err = other.Plug(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = startServe(t, arguments...)
	if page := s.get(t, s.web, "/ready?verbose"); !strings.Contains(page, "the root of --caDir is being rotated, trust: ") {
		t.Errorf("/ready?verbose does not name the rotation:\n%s", page)
	}
	if renewed := c.certificate("", old); string(renewed.Leaf.AuthorityKeyId) != string(old.Leaf.AuthorityKeyId) {
		t.Error("the new key has signed while agents do not trust its root")
	}
	if code, roots := c.trusted(old, nil); code != http.StatusOK || bytes.Count(roots, []byte("BEGIN")) != 2 {
		t.Errorf("the roots are %d %s", code, roots)
	}
	said := command(t, "ca", "rotate", "--now", "--caDir", dir)
	for _, want := range []string{"is used at once", "What breaks", "--caRoots", "stay valid until they end"} {
		if !strings.Contains(said, want) {
			t.Errorf("--now says %q, want %q", said, want)
		}
	}
	c.roots.AppendCertsFromPEM(other.PEM())
	if err := lab.Eventually(30*time.Second, func() error {
		if page := s.get(t, s.web, "/ready?verbose"); strings.Contains(page, "rotated") {
			return errors.New(page)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if code, _, err := c.ask("", old); err == nil && code == http.StatusOK {
		t.Error("a certificate of the key before is taken")
	}
	if young := c.certificate(token, nil); string(young.Leaf.AuthorityKeyId) == string(old.Leaf.AuthorityKeyId) {
		t.Error("the key before still signs")
	}
	for _, flags := range [][]string{{"--now", "--abort"}, {"--now", "--again"}} {
		if code := run(t.Context(), append([]string{"ca", "rotate", "--caDir", dir}, flags...), nil, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: code %d, want 2", flags, code)
		}
	}
	s.stop(t)
}
