package proxy

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
		input Input
		want  map[string]string
		fault string
	}{
		{Input{"--labelsFile", "/etc/istio/pod/labels", false}, map[string]string{"app": "reviews"}, ""},
		{Input{"--labelsFile", "/none", true}, nil, "--labelsFile: open none: file does not exist"},
		{Input{"--labelsFile", "/big", true}, nil, "--labelsFile /big: has 262145 bytes, want at most 262144"},
		{Input{"--labelsFile", "/bad", true}, nil, `--labelsFile /bad: line 1: is "app", want name="value"`},
	} {
		got, err := test.input.readDownward(root)
		if cmp.Diff(test.want, got) != "" || (err == nil) != (test.fault == "") || err != nil && err.Error() != test.fault {
			t.Errorf("%v: got %v, %v; want %v, %s", test.input, got, err, test.want, test.fault)
		}
	}
	if got, err := (Input{"--labelsFile", "/etc/istio/pod/labels", false}).readDownward(fstest.MapFS{}); got != nil || err != nil {
		t.Errorf("the default file is missing: got %v, %v; want nothing", got, err)
	}
}
