package main

import (
	"io"
	"log/slog"
)

// newLogger takes names that settings.validate has let pass.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	options := &slog.HandlerOptions{}
	var l slog.Level
	if l.UnmarshalText([]byte(level)) == nil {
		options.Level = l
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
