package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
)

// An epoch's number is used again at once after a crash. The record of the crash has the last lines of the process that
// crashed, though it is written later.
func TestARecordIsOfItsOwnProcess(t *testing.T) {
	dir, lines := t.TempDir(), "the first process"
	r := newRecorder(dir, func(epoch int) envoy.Remains {
		return envoy.Remains{Epoch: epoch, LastLines: []string{lines}}
	}, slog.New(slog.DiscardHandler))
	crash := []agent.Event{{At: time.Unix(1, 0), Note: agent.Failed, Why: "killed by signal 11"}}
	r.observe(crash, crash)
	lines = "the second process"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.run(ctx) // writes what has come
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

// What is done when Envoy serves is done once, whatever the supervisor tells while it serves.
func TestOnceServing(t *testing.T) {
	done := 0
	observe := onceServing(func() { done++ })
	for _, step := range []struct{ serving, want int }{{0, 0}, {1, 1}, {1, 1}, {2, 1}, {0, 1}, {1, 1}} {
		observe(agent.Status{Counts: map[agent.Note]int{agent.Serving: step.serving}})
		if done != step.want {
			t.Errorf("%d epochs have come to serve: done %d times, want %d", step.serving, done, step.want)
		}
	}
}
