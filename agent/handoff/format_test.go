package handoff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var self = Process{Pid: 7, Start: 99}

func TestStateIsReadAsItIsWritten(t *testing.T) {
	text, err := encode(self, []int{3, 64}, map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := decode(text, self)
	if err != nil || string(e.Body) != `{"a":1}` || !slices.Equal(e.Files, []int{3, 64}) {
		t.Errorf("read %+v, %v of %s", e, err, text)
	}
}

// A state that is of no use, or not for this process, is refused with the reason.
func TestHostileStates(t *testing.T) {
	good := func(change func(map[string]any)) string {
		m := map[string]any{"format": Format, "process": map[string]any{"pid": 7, "start": 99}, "files": []int{3, 64}, "body": map[string]any{}}
		change(m)
		text, _ := json.Marshal(m)
		return string(text)
	}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "no state"},
		{"no JSON", "x", "no state"},
		{"a list", "[]", "no state"},
		{"of another format", good(func(m map[string]any) { m["format"] = 99 }), "a state of format 99, this agent reads [4]"},
		{"of no format", good(func(m map[string]any) { delete(m, "format") }), "a state of format 0"},
		{"with another field", good(func(m map[string]any) { m["further"] = 1 }), `unknown field "further"`},
		{"of another process", good(func(m map[string]any) { m["process"] = map[string]any{"pid": 8, "start": 99} }), "for process 8"},
		{"of an earlier process", good(func(m map[string]any) { m["process"] = map[string]any{"pid": 7, "start": 98} }), "started at 98, want 7, started at 99"},
		{"with stdout", good(func(m map[string]any) { m["files"] = []int{1} }), "descriptor 1"},
		{"with one twice", good(func(m map[string]any) { m["files"] = []int{5, 5} }), "descriptor 5"},
		{"with many", good(func(m map[string]any) { m["files"] = make([]int, mostFiles+1) }), "descriptors, want at most"},
		{"two", good(func(map[string]any) {}) + "{}", "no state"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := decode([]byte(test.text), self); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzDecode: what is read is written alike, and nothing makes it fail otherwise than by an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format":4,"process":{"pid":7,"start":99},"files":[3,64],"body":{"a":[1,2]}}`))
	f.Add([]byte(`{"format":4,"process":{"pid":7,"start":99},"files":null,"body":null}`))
	f.Add([]byte(fmt.Sprintf(`{"format":4,"process":{"pid":7,"start":99},"files":[%s3],"body":{}}`, strings.Repeat("4,", 100))))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := decode(text, self)
		if err != nil {
			return
		}
		again, err := encode(self, e.Files, e.Body)
		if e.Body == nil {
			again, err = encode(self, e.Files, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if other, err := decode(again, self); err != nil || !slices.Equal(other.Files, e.Files) {
			t.Errorf("%s is read, and not as %s: %v", text, again, err)
		}
	})
}
