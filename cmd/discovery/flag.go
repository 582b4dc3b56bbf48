package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"
)

// durationFlag keeps a value that it cannot read, so that the faults of all flags are told at once.
type durationFlag struct {
	text  string
	value time.Duration
	err   error
}

func duration(d time.Duration) durationFlag { return durationFlag{text: d.String(), value: d} }

func (d *durationFlag) String() string { return d.text }
func (d *durationFlag) Type() string   { return "duration" }

func (d *durationFlag) Set(s string) error {
	d.text = s
	d.value, d.err = time.ParseDuration(s)
	return nil
}

func (d *durationFlag) check(flag string) error {
	if d.err != nil || d.value < 0 {
		return fmt.Errorf("%s is %q, want a duration such as 100ms or 10s", flag, d.text)
	}
	return nil
}

func checkAddress(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return fmt.Errorf("%s is %q, want HOST:PORT or :PORT", flag, address)
	}
	return nil
}

func checkOneOf(flag, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s is %q, want one of %v", flag, value, allowed)
	}
	return nil
}

// newLog returns a logger of values that were checked.
func newLog(w io.Writer, level, format string) *slog.Logger {
	var at slog.Level
	_ = at.UnmarshalText([]byte(level)) // checked
	options := &slog.HandlerOptions{Level: at}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
