package agent

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// The words of a state keep their meaning for the image that reads it.
func TestStoredWords(t *testing.T) {
	t.Run("stages", func(t *testing.T) { golden.Stored(t, []stage{quiet, checking, gated, starting, restoring, refused}) })
	t.Run("notes", func(t *testing.T) { golden.Stored(t, Notes()) })
	t.Run("commands", func(t *testing.T) { golden.Stored(t, []Command{Drain, Resume}) })
}
