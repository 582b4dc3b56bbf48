package lab

import (
	"reflect"
	"testing"
)

func TestBlocks(t *testing.T) {
	const page = "# Page\n\n```sh\ntrue\n```\n\nwords\n\n```text\nout\n```\n\n```console\nfalse\n```\n```text\nmore\n```\n```sh\necho \\\n  a\n```\n"
	want := []Block{
		{Line: 4, Commands: "true\n", Output: "out\n", Printed: true},
		{Line: 20, Commands: "echo \\\n  a\n"},
	}
	if got := Blocks(page); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBlockMatches(t *testing.T) {
	for _, test := range []struct {
		name, page, output string
		want               bool
	}{
		{"equal", "a b\nc\n", "a b\nc\n", true},
		{"columns of another width", "NAME AGE\nx 1s\n", "NAME       AGE\nx          1s\n", true},
		{"an empty line around it", "a\n", "\na\n\n", true},
		{"an ellipsis", "pid …: up\n", "pid 4711: up\n", true},
		{"an ellipsis for nothing", "up…\n", "up\n", true},
		{"an ellipsis is of one line", "a … b\n", "a\nb\n", false},
		{"further lines", "a\n", "a\nb\n", false},
		{"fewer lines", "a\nb\n", "a\n", false},
		{"another word", "a\n", "b\n", false},
		{"no pattern of its own", "a.c\n", "abc\n", false},
		{"no output", "\n", "", true},
	} {
		if got := (Block{Output: test.page}).Matches(test.output); got != test.want {
			t.Errorf("%s: %q of %q: got %t, want %t", test.name, test.output, test.page, got, test.want)
		}
	}
}
