package flight

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
