package main

import (
	"io"
	"log/slog"

	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/internal/logger"
)

// newLogger returns a logger. level and format must be values that the settings allow. w must not block, since code
// that logs must not wait for a reader.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	return logger.New(w, level, format, levelWord)
}

// levelWord replaces levels by their names, also Envoy's two that slog does not have.
func levelWord(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 || a.Key != slog.LevelKey {
		return a
	}
	if level, ok := a.Value.Any().(slog.Level); ok {
		return slog.String(slog.LevelKey, envoy.LevelName(level))
	}
	return a
}

// dropped returns a function that logs how many lines of a stream were dropped, once the stream flows again.
func dropped(log *slog.Logger, stream string) func(int64) {
	return func(lines int64) {
		log.Warn("lines dropped: nobody read them", "stream", stream, "lines", lines)
	}
}
