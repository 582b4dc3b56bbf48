// Package logger makes the logger of a program from its settings: slog's text or JSON, with a least level.
//
// Its callers choose where the lines go, and internal/setting checks the settings.
package logger
