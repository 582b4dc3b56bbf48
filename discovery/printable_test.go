package discovery

import (
	"strings"
	"testing"
)

// The lines of a source repeat what a registry sent, without control characters, and not at any length.
func TestLinesCannotBeForged(t *testing.T) {
	s := SourceStatus{
		Name: "Eureka", State: SourceFailed, Error: "read: \x1b[2J\nready\r\n\u202e",
		Malformed: []string{"a\nsource Kubernetes: forged: \x9b", strings.Repeat("x", 1<<20)},
	}
	all := strings.Join(s.Lines(), "")
	for _, bad := range []string{"\x1b", "\n", "\r", "\x9b", "\u202e"} {
		if strings.Contains(all, bad) {
			t.Errorf("the lines contain %q", bad)
		}
	}
	if !strings.Contains(all, `\x1b[2J\nready`) || len(all) > 4*maxLine {
		t.Errorf("%d bytes, %.200q", len(all), all)
	}
}
