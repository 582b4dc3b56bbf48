package envoy

import (
	"log/slog"
	"slices"
	"testing"
	"time"
)

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
