// Package logger makes the log of a program from its settings: slog's text or JSON, from a level on.
//
// It leaves to its callers where the lines go, and to internal/setting the check of the settings.
package logger
