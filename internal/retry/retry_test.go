package retry

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = errors.New("away")

// pauses returns the pauses after attempts that last so long and fail; the last attempt succeeds.
func pauses(t *testing.T, d Delays, lasts ...time.Duration) (out []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began, slept := time.Now(), time.Duration(0)
		n := 0
		d.Do(t.Context(), func() error {
			if n == len(lasts) {
				return nil
			}
			<-time.After(lasts[n])
			slept += lasts[n]
			n++
			return errAway
		}, func(err error, pause time.Duration) {
			if !errors.Is(err, errAway) {
				t.Errorf("it failed with %v", err)
			}
			slept += pause
			out = append(out, pause)
		})
		if took := time.Since(began); took != slept {
			t.Errorf("it took %s, and says %s", took, slept)
		}
	})
	return out
}

func TestPausesGrow(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		delays Delays
		lasts  []time.Duration
		want   []time.Duration
	}{
		"none":                        {Delays{First: s, Last: 10 * s}, nil, nil},
		"up to the last":              {Delays{First: s, Last: 10 * s}, make([]time.Duration, 6), []time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s}},
		"a long attempt begins again": {Delays{First: s, Last: 10 * s}, []time.Duration{0, 0, 10 * s, 0}, []time.Duration{s, 2 * s, s, 2 * s}},
		"as long as it says":          {Delays{First: s, Last: 10 * s, Long: 30 * s}, []time.Duration{0, 29 * s, 30 * s}, []time.Duration{s, 2 * s, s}},
		"one pause":                   {Delays{First: s, Last: s}, make([]time.Duration, 3), []time.Duration{s, s, s}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pauses(t, test.delays, test.lasts...); !slices.Equal(got, test.want) {
				t.Errorf("it pauses %v, want %v", got, test.want)
			}
		})
	}
}

func TestJittered(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 8 * time.Second, 0.5: 6 * time.Second, 0.999999999: 4 * time.Second} {
		d := Delays{Random: func() float64 { return random }}
		if got := d.jittered(8 * time.Second); got.Round(time.Millisecond) != want {
			t.Errorf("at %g a pause of 8s is %v, want %v", random, got, want)
		}
	}
}

// The end of ctx ends a pause, and an attempt that it ends has not failed.
func TestTheEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		failures := 0
		began := time.Now()
		d := Delays{First: time.Hour, Last: time.Hour}
		d.Do(ctx, func() error { return errAway }, func(error, time.Duration) {
			failures++
			time.AfterFunc(time.Minute, cancel)
		})
		if took := time.Since(began); took != time.Minute || failures != 1 {
			t.Errorf("it ended after %s and %d failures, want 1m0s and 1", took, failures)
		}
		d.Do(ctx, func() error { <-ctx.Done(); return ctx.Err() }, func(err error, _ time.Duration) { t.Errorf("it failed: %v", err) })
	})
}
