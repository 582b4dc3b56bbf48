package setting

import (
	"strings"
	"testing"
)

func TestWriteColumns(t *testing.T) {
	var out strings.Builder
	rows := [][]string{{"a", "bb", "last"}, {"äöü", "", "longer than all"}, {"one"}, {"x", "end"}}
	if err := WriteColumns(&out, 2, rows); err != nil {
		t.Fatal(err)
	}
	want := "a    bb  last\näöü      longer than all\none\nx    end\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
