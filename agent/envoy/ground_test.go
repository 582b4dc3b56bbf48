package envoy

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Agents that stop remove the directories that others enter at that moment.
func TestClaimWhileOthersRelease(t *testing.T) {
	configPath := filepath.Join(lab.ShortDir(t), "proxy")
	var agents sync.WaitGroup
	for range 4 {
		agents.Go(func() {
			for range 150 {
				s, err := Claim(configPath, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Release(); err != nil && !errors.Is(err, fs.ErrNotExist) { // another may have cleared the slot by then
					t.Error(err)
				}
			}
		})
	}
	agents.Wait()
}
