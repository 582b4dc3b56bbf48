package main

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestReadDownward(t *testing.T) {
	root := fstest.MapFS{
		"etc/istio/pod/labels": {Data: []byte("app=\"reviews\"\n")},
		"big":                  {Data: make([]byte, downwardLimit+1)},
		"bad":                  {Data: []byte("app\n")},
	}
	for _, test := range []struct {
		flags []string
		want  map[string]string
		fault string
	}{
		{nil, map[string]string{"app": "reviews"}, ""},
		{[]string{"--labelsFile", "/none"}, nil, "--labelsFile: open none: file does not exist"},
		{[]string{"--labelsFile", "/big"}, nil, "--labelsFile /big: has 262145 bytes, want at most 262144"},
		{[]string{"--labelsFile", "/bad"}, nil, `--labelsFile /bad: line 1: is "app", want name="value"`},
	} {
		s := resolved(t, nil, test.flags...)
		got, err := s.readDownward(root, "labelsFile", s.labelsFile)
		if cmp.Diff(test.want, got) != "" || (err == nil) != (test.fault == "") || err != nil && err.Error() != test.fault {
			t.Errorf("%v: got %v, %v; want %v, %s", test.flags, got, err, test.want, test.fault)
		}
	}
	s := resolved(t, nil)
	if got, err := s.readDownward(fstest.MapFS{}, "labelsFile", s.labelsFile); got != nil || err != nil {
		t.Errorf("the default file is missing: got %v, %v; want nothing", got, err)
	}
}
