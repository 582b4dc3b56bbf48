package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotlight/pilotlight/watch"
)

// A tick says that the files are worth another look; the reader compares what it reads.
func ExampleWatcher_Run() {
	dir, err := os.MkdirTemp("", "watch")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ticks, ended := make(chan struct{}, 1), make(chan error, 1)
	w := watch.Watcher{
		Paths: []string{dir}, Quiet: 10 * time.Millisecond, Ceiling: time.Second, Recheck: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	go func() { ended <- w.Run(ctx, ticks) }()
	if err := os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte("kind: Service\n"), 0o600); err != nil {
		fmt.Println(err)
	}
	select {
	case <-ticks:
		found, _ := os.ReadDir(dir)
		fmt.Println("look again:", len(found), "file")
	case <-ctx.Done():
		fmt.Println("no tick")
	}
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// look again: 1 file
	// ended: <nil>
}
