package clidoc

import (
	"reflect"
	"strings"
	"testing"
)

const example = "# Page\n\n```sh\nmake demo\n```\n```\na ──▶ b\n```\n```console\nmake demo DEMO=-mtls\n```\n```text\nmake demo\n```\n```sh\none\ntwo\n```\n"

func TestFences(t *testing.T) {
	want := []Fence{
		{4, "sh", "make demo\n"},
		{7, "", "a ──▶ b\n"},
		{10, "console", "make demo DEMO=-mtls\n"},
		{13, "text", "make demo\n"},
		{16, "sh", "one\ntwo\n"},
	}
	if got := Fences(example); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestPick(t *testing.T) {
	for _, test := range []struct {
		words string
		line  int
		fault string
	}{
		{"make demo", 4, ""}, // the block that is these words goes before those that have them in them
		{"-mtls", 10, ""},
		{"two", 16, ""},
		{"make", 0, "2 blocks"},
		{"a ──▶ b", 0, "0 blocks"},
	} {
		got, err := Pick(example, test.words)
		if test.fault == "" && (err != nil || got.Line != test.line) {
			t.Errorf("%q: %+v, %v; want that of line %d", test.words, got, err, test.line)
		}
		if test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%q: %+v, %v; want %q", test.words, got, err, test.fault)
		}
	}
}
