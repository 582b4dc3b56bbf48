// Package logger makes the logger of a program from its settings: slog's text or JSON, with a least level.
//
// It does not check the settings, which internal/setting does. Its callers choose where the lines go.
package logger
