package enroll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

func TestRenewalIsAtHalfOfTheLife(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		life   time.Duration
		random float64
		want   time.Duration
	}{
		{24 * time.Hour, 0.5, 12 * time.Hour},
		{24 * time.Hour, 0, 9*time.Hour + 36*time.Minute},
		{24 * time.Hour, 1, 14*time.Hour + 24*time.Minute},
		{20 * time.Second, 0.5, 10 * time.Second},
		{0, 1, 0},
		{-time.Hour, 0.5, -30 * time.Minute}, // at once
	} {
		if got := due(from, from.Add(c.life), c.random).Sub(from); got != c.want {
			t.Errorf("a life of %s, random %v: after %s, want %s", c.life, c.random, got, c.want)
		}
	}
}

// An authority that cannot be reached is asked every few seconds, and one that refuses ever later.
func TestAgain(t *testing.T) {
	gone, refused := &away{errors.New("connection refused")}, &unsigned{text: "401", after: 0}
	for _, c := range []struct {
		failures int
		err      error
		random   float64
		want     time.Duration
	}{
		{1, gone, 0, 500 * time.Millisecond},
		{1, gone, 1, 500 * time.Millisecond},
		{3, gone, 0, 2 * time.Second},
		{3, gone, 1, time.Second},
		{5, gone, 0, 5 * time.Second},
		{1000, gone, 0, 5 * time.Second},
		{1000, fmt.Errorf("renew: %w", errors.Join(gone, errors.New("read the token"))), 1, 2500 * time.Millisecond},
		{1000, refused, 0, time.Minute},
		{1000, errors.Join(gone, refused), 0, time.Minute},
		{1000, &unsigned{text: "503", after: 90 * time.Second}, 0, 90 * time.Second},
		{1000, errors.New("the certificate is not written"), 0, time.Minute},
	} {
		if got := again(c.failures, c.err, c.random); got != c.want {
			t.Errorf("%d failures, %v, random %v: %s, want %s", c.failures, c.err, c.random, got, c.want)
		}
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nobody listens":        {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"no answer":             {context.DeadlineExceeded, true},
		"the connection ended":  {io.EOF, true},
		"its certificate":       {fmt.Errorf("ask: %w", &untrusted{errors.New("for another name")}), false},
		"it refuses this one's": {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, false},
	} {
		if got := isAway(test.err); got != test.want {
			t.Errorf("%s: away %t, want %t", name, got, test.want)
		}
	}
}

func TestBackOff(t *testing.T) {
	for _, c := range []struct {
		failures int
		after    time.Duration
		random   float64
		want     time.Duration
	}{
		{1, 0, 0, time.Second},
		{1, 0, 1, 800 * time.Millisecond},
		{2, 0, 0, 2 * time.Second},
		{6, 0, 0, 32 * time.Second},
		{7, 0, 0, time.Minute},
		{1000, 0, 0, time.Minute},
		{1000, 0, 1, 48 * time.Second},
		{1, 30 * time.Second, 0, 30 * time.Second},
		{7, time.Second, 0, time.Minute},
		{1, 24 * time.Hour, 0, 5 * time.Minute},
	} {
		if got := backOff(c.failures, c.after, c.random); got != c.want {
			t.Errorf("%d failures, after %s, random %v: %s, want %s", c.failures, c.after, c.random, got, c.want)
		}
	}
}
