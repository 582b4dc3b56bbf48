package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl describe shows why a container of the agent ended, or for what it waited in vain.
func TestLeave(t *testing.T) {
	long := errors.New(strings.Repeat("é", longestMessage))
	for _, test := range []struct {
		err     error
		unready string
		want    string
	}{
		{nil, "", "before"},
		{errors.New("envoy: no such file"), "CDSReceived: not yet", "envoy: no such file"},
		{nil, "CDSReceived: not yet", "stopped before it was ready: CDSReceived: not yet"},
		{long, "", strings.Repeat("é", longestMessage/2)},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
		leave(path, test.err, test.unready)
		if got, err := os.ReadFile(path); string(got) != test.want || err != nil {
			t.Errorf("%v, %q: got %q, %v, want %q", test.err, test.unready, got, err, test.want)
		}
	}
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o666), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	leave(link, errors.New("x"), "")
	leave(filepath.Join(dir, "missing"), errors.New("x"), "")
	if text, err := os.ReadFile(victim); string(text) != "precious" || err != nil {
		t.Errorf("a link was followed: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 2 || err != nil {
		t.Errorf("%v, %v: a file was made", entries, err)
	}
}
