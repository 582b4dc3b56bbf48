package logger

import (
	"io"
	"log/slog"
)

// Levels and Formats are the arguments that New accepts.
var (
	Levels  = []string{"debug", "info", "warn", "error"}
	Formats = []string{"text", "json"}
)

// New returns a logger that writes lines of a level and above to w. replace is ReplaceAttr of slog.HandlerOptions, and
// may be nil.
func New(w io.Writer, level, format string, replace func(groups []string, a slog.Attr) slog.Attr) *slog.Logger {
	options := &slog.HandlerOptions{ReplaceAttr: replace}
	var l slog.Level
	if l.UnmarshalText([]byte(level)) == nil {
		options.Level = l
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
