package envoy

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// The lines are Envoy 1.40's own.
const (
	criticalLine  = "[2026-11-21 18:04:56.105][10714][critical][main] [source/server/server.cc:449] error `cannot bind` initializing config"
	warningLine   = "[2026-11-21 18:04:56.105][10714][warning][main] [source/server/server.cc:1] deprecated"
	plainLine     = "cannot bind '127.0.0.1:19000': Address already in use"
	assertLine    = `{"level":"critical","time":"2026-11-21T18:25:08.577+00:00","component":"assert","thread":7,"source":"a.cc:1","msg":"panic: no memory"}`
	backtraceLine = `{"level":"critical","time":"2026-11-21T18:25:08.577+00:00","component":"backtrace","thread":7,"source":"./source/server/backtrace.h:173","msg":"`
	frames        = backtraceLine + `Backtrace (use tools/stack_decode.py to get line numbers):"}` + "\n" + backtraceLine + `#0: [0x7f4febd95050]"}` + "\n"
	aborted       = backtraceLine + `Caught Aborted, suspect faulting address 0x1a7b"}` + "\n" + frames
	segfault      = backtraceLine + `Caught Segmentation fault, suspect faulting address 0x1a7b"}` + "\n" + frames
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
		{"assertion with a backtrace", warningLine + "\n" + assertLine + "\n" + aborted, "panic: no memory"},
		{"crash with a backtrace", warningLine + "\n" + segfault, "Caught Segmentation fault, suspect faulting address 0x1a7b"},
		{"a long backtrace", assertLine + "\n" + aborted + strings.Repeat(frames, reasonLines), "panic: no memory"},
		{"protobuf's blanks", "near 1:9 (offset 8):  no such   field: 'admn'\n", "near 1:9 (offset 8): no such field: 'admn'"},
		{"a message of two lines", strings.Replace(assertLine, "no memory", `no\n memory`, 1) + "\n", "panic: no memory"},
		{"a plain line before harmless ones", plainLine + "\n" + warningLine + "\n", ""},
		{"too long ago", criticalLine + "\n" + strings.Repeat(warningLine+"\n", reasonLines), ""},
		{"a line longer than is kept", strings.Repeat("x", 2*longestLine) + "\n", strings.Repeat("x", longestLine)},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 20} { // however the pipe cuts it
				if got := written(test.output, size, slog.New(slog.DiscardHandler)).reason(); got != test.want {
					t.Errorf("in pieces of %d: reason %q, want %q", size, got, test.want)
				}
			}
		})
	}
}

// written returns the kept lines of a text that was written in pieces of size.
func written(text string, size int, log *slog.Logger) *output {
	o := newOutput(log, 3)
	for ; text != ""; text = text[min(size, len(text)):] {
		io.WriteString(o, text[:min(size, len(text))])
	}
	return o
}

func TestOutputForwardsEachLine(t *testing.T) {
	for _, size := range []int{1, 7, 1 << 20} {
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError}))
		written(warningLine+"\n\n"+assertLine+"\n"+plainLine, size, log).last()
		at, rest, _ := strings.Cut(text.String(), "time=2026-11-21T18:25:08.577")
		if want := ` level=WARN msg=deprecated epoch=3 component=main thread=10714 source=source/server/server.cc:1` + "\n"; !strings.HasSuffix(at, want) {
			t.Errorf("in pieces of %d: got %q, want it to end in %q", size, at, want)
		}
		if want := ` level=ERROR+4 msg="panic: no memory" epoch=3 component=assert`; !strings.Contains(rest, want) {
			t.Errorf("in pieces of %d: got %q, want %q", size, rest, want)
		}
		if want := `level=INFO msg="` + plainLine + `" epoch=3 component=output` + "\n"; !strings.HasSuffix(rest, want) {
			t.Errorf("in pieces of %d: got %q, want it to end in %q", size, rest, want)
		}
	}
}

func TestOutputKeepsTheLastLines(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := range 2*keptLines + 7 {
		line := strings.Repeat("x", i)
		text.WriteString(line + "\n")
		want = append(want, line)
	}
	got := written(text.String(), 1000, slog.New(slog.DiscardHandler)).lastLines()
	if want = want[len(want)-keptLines:]; !slices.Equal(got, want) {
		t.Errorf("lastLines: got %d lines %.80q..., want the last %d in order", len(got), got, keptLines)
	}
}

func BenchmarkOutput(b *testing.B) {
	const line = `{"level":"info","time":"2026-11-21T18:23:49.356+00:00","component":"upstream","thread":5227,` +
		`"source":"source/common/upstream/cluster_manager_impl.cc:251","msg":"cds: \"x\" added"}` + "\n"
	o := newOutput(slog.New(slog.NewJSONHandler(io.Discard, nil)), 0)
	b.ReportAllocs()
	for b.Loop() {
		io.WriteString(o, line)
	}
}

// Envoy's text of a rejection depends on the protocol's variant. The last one of a type counts, however old it is.
func TestLastRejection(t *testing.T) {
	line := func(second int, message string) string {
		return fmt.Sprintf(`{"level":"warning","time":"2026-11-21T12:00:%02d.000+00:00","component":"config","thread":1,"source":"x.cc:1","msg":"%s"}`+"\n", second, message)
	}
	o := newOutput(slog.New(slog.DiscardHandler), 0)
	for _, text := range []string{
		line(1, "gRPC config for "+listenerType+" rejected: old"),
		line(2, "gRPC config for "+listenerType+` rejected: Error adding/updating listener(s) a: x\nb: y\n`),
		line(3, "delta config for "+clusterType+" rejected: Error adding/updating cluster(s) c: z, as if d: e, f|80||g: h"),
		line(4, "said: gRPC config for "+listenerType+" rejected: is no rejection"),
	} {
		io.WriteString(o, text)
	}
	for range keptLines - 4 {
		io.WriteString(o, line(5, "something else"))
	}
	at := func(second int) time.Time { return time.Date(2026, 11, 21, 12, 0, second, 0, time.UTC) }
	for typeURL, want := range map[string]rejection{
		listenerType: {health.Rejection{Text: "Error adding/updating listener(s) a: x b: y", At: at(2)}, []string{"a", "b"}},
		clusterType:  {health.Rejection{Text: "Error adding/updating cluster(s) c: z, as if d: e, f|80||g: h", At: at(3)}, []string{"c", "f|80||g"}},
		"other":      {},
	} {
		if got := o.lastRejection(typeURL); got.Text != want.Text || !got.At.Equal(want.At) || !slices.Equal(got.names, want.names) {
			t.Errorf("%s: got %+v, want %+v", typeURL, got, want)
		}
	}
	io.WriteString(o, line(6, "something else")+line(7, "and")+line(8, "so on"))
	if got := o.lastRejection(clusterType); !got.At.Equal(at(3)) {
		t.Errorf("a rejection of long ago: got %+v", got)
	}
	if !o.rejectedSince(at(2)) || o.rejectedSince(at(3)) {
		t.Error("the last rejection is not after 12:00:02 and at 12:00:03")
	}
}

func TestParse(t *testing.T) {
	at := time.Date(2026, 11, 21, 18, 25, 8, 577e6, time.UTC)
	head := `{"level":"warning","time":"2026-11-21T18:25:08.577+00:00","component":"config","thread":7,"source":"a/b.cc:12","msg":"`
	warning := func(message string) Record { return Record{at, slog.LevelWarn, "config", "7", "a/b.cc:12", message} }
	for _, test := range []struct {
		name, line string
		want       Record
		ok         bool
	}{
		{"our format", head + `all good"}`, warning("all good"), true},
		{"with quotes, newlines, backslashes", head + `a \"b\"\n\tc\\d \u0001"}`, warning("a \"b\"\n\tc\\d \x01"), true},
		{"with what looks like its end", head + `x\"}"}`, warning(`x"}`), true},
		{"with what looks like a key", head + `","msg":"y"}`, warning(`","msg":"y`), true},
		{"a carriage return", head + `x"}` + "\r", warning("x"), true},
		{"no UTF-8, as it is", head + "\xff\"}", warning("\xff"), true},
		{"no UTF-8 beside an escape", head + "\xff\\n\"}", warning("\uFFFD\n"), true},
		{"cut short", head + `half of i`, warning("half of i"), true},
		{"cut in an escape", head + `half\`, warning(`half\`), true},
		{"no message", head + `"}`, warning(""), true},
		{"cut before the message", head[:60], Record{Message: head[:60]}, false},
		{"somebody else's JSON", `{"level":"info","msg":"x"}`, Record{Message: `{"level":"info","msg":"x"}`}, false},
		{"plain", plainLine, Record{Message: plainLine}, false},
		{"plain in brackets", "[x][y][warning][z] w", Record{Message: "[x][y][warning][z] w"}, false},
		{"empty", "", Record{}, false},
		{
			"Envoy's default format", warningLine,
			Record{
				time.Date(2026, 11, 21, 18, 4, 56, 105e6, time.Local),
				slog.LevelWarn, "main", "10714", "source/server/server.cc:1", "deprecated",
			},
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := parse([]byte(test.line))
			if !got.Time.Equal(test.want.Time) {
				t.Errorf("time %s, want %s", got.Time, test.want.Time)
			}
			got.Time = test.want.Time
			if got != test.want || ok != test.ok {
				t.Errorf("parse:\n got %+v, %v\nwant %+v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	before := slog.Level(-100)
	for _, name := range []string{"trace", "debug", "info", "warning", "error", "critical"} {
		level, ok := levelOf(name)
		if !ok || level <= before {
			t.Errorf("levelOf(%q) = %v, %v; want a level above %v", name, level, ok, before)
		}
		before = level
	}
}

// FuzzOutput cuts any output at any place: the kept lines must not depend on it.
func FuzzOutput(f *testing.F) {
	for _, line := range []string{warningLine, plainLine, assertLine, assertLine[:len(assertLine)-5], "[\n\n{", "\r\n"} {
		f.Add(line+"\n"+line, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 {
			return
		}
		log := slog.New(slog.DiscardHandler)
		whole, pieces := written(text, max(1, len(text)), log).lastLines(), written(text, size, log).lastLines()
		if !slices.Equal(whole, pieces) {
			t.Errorf("in pieces of %d: %q, as a whole: %q", size, pieces, whole)
		}
	})
}
