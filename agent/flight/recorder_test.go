package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// An epoch's number is used again at once after a crash. The record of the crash has the last lines of the process that
// crashed, though it is written later.
func TestARecordIsOfItsOwnProcess(t *testing.T) {
	dir, lines := t.TempDir(), "the first process"
	r := NewRecorder(dir, dir, func(int) Remains {
		return Remains{LastLines: []string{lines}}
	}, slog.New(slog.DiscardHandler))
	crash := []agent.Event{{At: time.Unix(1, 0), Note: agent.Failed, Why: "killed by signal 11"}}
	r.Observe(crash, crash)
	lines = "the second process"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Run(ctx) // writes what has come
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("records: %v, %v; want one", files, err)
	}
	record, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if text := string(record); !strings.Contains(text, "the first process") || strings.Contains(text, "the second process") {
		t.Errorf("the record is of another process:\n%s", text)
	}
}

var began = time.Date(2026, 11, 21, 18, 25, 8, 5e6, time.UTC)

const largest = 256 << 10

func read(t *testing.T, path string) (Record, string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("%v in %.500s", err, data)
	}
	return r, string(data)
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestWriteKeepsTheNewest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flight")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.txt", ".unfinished-1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		path, err := Write(dir, Record{Time: began.Add(time.Duration(i) * time.Millisecond), Cause: "crash", Epoch: i}, 3)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 600", path, info.Mode(), err)
		}
	}
	const want = "20261121T182508.007000000Z-epoch2.json 20261121T182508.008000000Z-epoch3.json " +
		"20261121T182508.009000000Z-epoch4.json notes.txt"
	if got := names(t, dir); got != want {
		t.Errorf("the directory has\n     %s\nwant %s", got, want)
	}
}

func TestWriteMasks(t *testing.T) {
	path, err := Write(t.TempDir(), Record{
		Time: began, Cause: "crash", Exit: "exit status 1: https://me:hidden@host",
		Bootstrap: json.RawMessage(`{"private_key":{"inline_string":"hidden"}}`),
		LastLines: []string{"INFO Bearer hidden-token", "plain"},
		History:   []Event{{began, "Bearer hidden-token"}},
	}, 3)
	if err != nil {
		t.Fatal(err)
	}
	r, text := read(t, path)
	if strings.Contains(text, "hidden") || r.LastLines[1] != "plain" || string(r.Bootstrap) == "" {
		t.Errorf("the record is %s", text)
	}
}

func TestWriteIsBounded(t *testing.T) {
	odd := strings.Repeat("\xff\x01<\"", 20<<10)
	record := Record{Time: began, Cause: odd, Exit: odd, Stats: map[string]int64{}}
	for i := range 3000 {
		record.LastLines = append(record.LastLines, fmt.Sprintf("%d %s", i, odd[:100]))
		record.History = append(record.History, Event{began, fmt.Sprintf("%d %s", i, odd[:100])})
		record.Stats[fmt.Sprintf("cluster.outbound|%d.upstream_rq_total", i)] = 1 << 60
	}
	deep, err := json.Marshal(map[string]any{"odd": odd, "list": make([]int, 100000)})
	if err != nil {
		t.Fatal(err)
	}
	record.Bootstrap = deep
	path, err := Write(t.TempDir(), record, 3)
	if err != nil {
		t.Fatal(err)
	}
	r, text := read(t, path)
	if len(text) > largest || len(text) < largest/2 {
		t.Errorf("the record has %d bytes, want up to %d, and most of them used", len(text), largest)
	}
	last := func(what string) bool { return strings.HasPrefix(what, "2999 ") }
	if !last(r.LastLines[len(r.LastLines)-1]) || !last(r.History[len(r.History)-1].What) {
		t.Error("the newest lines or events are not in the record")
	}
	if len(r.Notes) != 4 {
		t.Errorf("notes %q, want one for each of four parts that were cut", r.Notes)
	}
}

func TestWriteSaysWhatItCannotTell(t *testing.T) {
	path, err := Write(t.TempDir(), Record{Time: began, Bootstrap: json.RawMessage("private_key: hidden")}, 3)
	if err != nil {
		t.Fatal(err)
	}
	r, text := read(t, path)
	if strings.Contains(text, "hidden") || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "bootstrap: left out") {
		t.Errorf("the record is %s", text)
	}
}

func TestWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "20261121T182508.005000000Z-epoch0.json")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o755); err != nil { // no file can be renamed to it
		t.Fatal(err)
	}
	if path, err := Write(dir, Record{Time: began}, 3); err == nil || path != "" || !strings.Contains(err.Error(), "write flight record: ") {
		t.Errorf("Write: %q, %v; want an error", path, err)
	}
	if got := names(t, dir); got != filepath.Base(taken) {
		t.Errorf("left behind: %s", got)
	}
}

func TestReadProcess(t *testing.T) {
	root := fstest.MapFS{"proc/7/status": {Data: []byte("Name:\tenvoy\nState:\tT (stopped)\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n")}}
	got, err := ReadProcess(root, 7)
	if want := (Process{Pid: 7, State: "T (stopped)", Threads: 9, RSS: 1 << 20, PeakRSS: 2 << 20}); got != want || err != nil {
		t.Errorf("ReadProcess: %+v, %v; want %+v", got, err, want)
	}
	if _, err := ReadProcess(root, 8); err == nil {
		t.Error("ReadProcess of none: want an error")
	}
	if got, err := ReadProcess(os.DirFS("/"), os.Getpid()); err != nil || got.RSS == 0 || got.Threads == 0 || got.State == "" {
		t.Errorf("ReadProcess of this one: %+v, %v", got, err)
	}
}
