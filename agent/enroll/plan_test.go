package enroll

import (
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
