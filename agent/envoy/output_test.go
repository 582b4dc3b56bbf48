package envoy

import (
	"io"
	"strings"
	"testing"
)

// The lines are Envoy 1.40's own.
const (
	criticalLine = "[2026-11-21 18:04:56.105][10714][critical][main] [source/server/server.cc:449] error `cannot bind` initializing config"
	warningLine  = "[2026-11-21 18:04:56.105][10714][warning][main] [source/server/server.cc:1] deprecated"
	plainLine    = "cannot bind '127.0.0.1:19000': Address already in use"
)

func TestReason(t *testing.T) {
	for _, test := range []struct {
		name, output, want string
	}{
		{"nothing said", "", ""},
		{"only what is harmless", warningLine + "\n", ""},
		{"fatal at start: the plain last line", criticalLine + "\n" + plainLine + "\n", plainLine},
		{"its end is missing", criticalLine + "\n" + plainLine, plainLine},
		{"assertion", warningLine + "\n" + criticalLine + "\n", "error `cannot bind` initializing config"},
		{"a plain line before harmless ones", plainLine + "\n" + warningLine + "\n", ""},
		{"too long ago", criticalLine + "\n" + strings.Repeat(warningLine+"\n", keptLines), ""},
		{"a line longer than is kept", strings.Repeat("x", 2*longestLine) + "\n", strings.Repeat("x", longestLine)},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 20} { // however the pipe cuts it
				var passedOn strings.Builder
				w := &lastWords{next: &passedOn}
				for rest := test.output; rest != ""; {
					n := min(size, len(rest))
					io.WriteString(w, rest[:n])
					rest = rest[n:]
				}
				if got := w.reason(); got != test.want {
					t.Errorf("in pieces of %d: reason %q, want %q", size, got, test.want)
				}
				if passedOn.String() != test.output {
					t.Errorf("in pieces of %d: passed on %d bytes, want all %d", size, passedOn.Len(), len(test.output))
				}
			}
		})
	}
}
