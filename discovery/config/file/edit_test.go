package file

import (
	"fmt"
	"strings"
	"testing"
)

// large returns a file of a thousand services.
func large() string {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString("---\n" + service(fmt.Sprint("s", i), fmt.Sprintf("s%d.com", i)))
	}
	return b.String()
}

// The cost of an edit in a large file is in proportion to the change, although it moves all objects below it.
func TestEditCostsWhatItChanged(t *testing.T) {
	before := large()
	after := "# moved\n" + strings.Replace(before, "[s500.com]", "[other.com]", 1)
	s := newState(0)
	cold := testing.AllocsPerRun(1, func() { parse(func(string) *parsed { return nil }, []File{file("a.yaml", before)}) })
	s.apply(s.lookAt([]File{file("a.yaml", before)}), start0)
	specs := map[string]any{}
	for key, o := range s.objects {
		specs[key] = o.Spec
	}
	warm := testing.AllocsPerRun(1, func() { parse(s.file, []File{file("a.yaml", after)}) })
	if warm > cold/10 {
		t.Errorf("an edit costs %.0f allocations, a cold start %.0f", warm, cold)
	}
	s.apply(s.lookAt([]File{file("a.yaml", after)}), start0)
	changed := 0
	for key, o := range s.objects {
		if o.Spec != specs[key] {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d of %d objects were decoded anew, want 1", changed, len(s.objects))
	}
}

// BenchmarkEdit changes one object in the middle of a file.
func BenchmarkEdit(b *testing.B) {
	s := newState(0)
	text := large()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.apply(s.lookAt([]File{file("a.yaml", strings.Replace(text, "[s500.com]", fmt.Sprintf("[s%d.net]", i), 1))}), start0)
	}
}

// BenchmarkChange changes one file of ten thousand.
func BenchmarkChange(b *testing.B) {
	s := newState(0)
	s.apply(s.lookAt(mesh(10_000, 0)), start0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.apply(scan{files: parse(s.file, []File{file("s7.yaml", service("s7", fmt.Sprintf("s%d.net", i)))})}, start0)
		s.status()
	}
}
