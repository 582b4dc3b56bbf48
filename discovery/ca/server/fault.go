package server

import (
	"errors"
	"fmt"
	"time"
)

// Refusal is the error for a caller that has not proved an identity. Its text is for the log, never for the caller.
type Refusal struct {
	Cause string // for a metric: "no-proof", "certificate", "join-token", "token"
	Err   error
}

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// Busy is the error for a caller that shall come again.
type Busy struct {
	Cause string // "rate", "not-ready", "authority", "unreachable"
	After time.Duration
	Err   error
}

func (b *Busy) Error() string { return b.Err.Error() }
func (b *Busy) Unwrap() error { return b.Err }

// Malformed is the error for a request that no identity would help. The caller gets its text.
type Malformed struct{ Err error }

func (m *Malformed) Error() string { return m.Err.Error() }
func (m *Malformed) Unwrap() error { return m.Err }

// ErrForeign is the error of an Authenticator for a token that another one may know.
var ErrForeign = errors.New("the token is of another kind")

// cause names an error for the metric.
func cause(err error) string {
	var refusal *Refusal
	var busy *Busy
	switch {
	case errors.As(err, &refusal):
		return refusal.Cause
	case errors.As(err, &busy):
		return busy.Cause
	}
	return "request"
}

func refuse(cause, format string, args ...any) error {
	return &Refusal{cause, fmt.Errorf(format, args...)}
}
