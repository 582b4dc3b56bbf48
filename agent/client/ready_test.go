package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	const ms = time.Millisecond
	var got []time.Duration
	for n := range 9 {
		got = append(got, pause(n, 500*ms))
	}
	want := []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 500 * ms, 500 * ms, 500 * ms}
	if !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	if got := pause(1<<40, time.Hour); got != time.Hour {
		t.Errorf("much later: %v, want the interval", got)
	}
	if got := pause(0, ms); got != ms {
		t.Errorf("with a short interval: %v, want the interval", got)
	}
}

func TestUntil(t *testing.T) {
	early, late := errors.New("early"), errors.New("late")
	for _, test := range []struct {
		name    string
		answers []error // the last one stays
		limit   time.Duration
		want    error
		told    int
		took    time.Duration
	}{
		{"at once", []error{nil}, time.Second, nil, 0, 0},
		{"soon, so it is asked quickly", []error{early, early, nil}, time.Second, nil, 2, 30 * time.Millisecond},
		{"never: the last complaint counts, of the very end", []error{early, late}, 65 * time.Millisecond, late, 4, 65 * time.Millisecond},
		{"once, however short the limit is", []error{early}, 1, early, 2, 1},
		{
			"late, without a limit", append(slices.Repeat([]error{early}, 1000), nil), 0,
			nil, 1000, 994*500*time.Millisecond + 630*time.Millisecond,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told, asked, began := 0, 0, time.Now()
				err := Patience{500 * time.Millisecond, test.limit}.Until(t.Context(), func(context.Context) error {
					asked++
					return test.answers[min(asked, len(test.answers))-1]
				}, func(error) { told++ })
				if err != test.want || told != test.told || time.Since(began) != test.took {
					t.Errorf("%v, told %d times, after %v; want %v, %d, %v", err, told, time.Since(began), test.want, test.told, test.took)
				}
			})
		})
	}
}

// A request that the end cancels fails for that reason, so its error is not returned.
func TestUntilKeepsTheComplaintFromBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		blocker, asked := errors.New("blocker"), 0
		err := Patience{Interval: time.Second}.Until(ctx, func(ctx context.Context) error {
			if asked++; asked == 1 {
				return blocker
			}
			<-ctx.Done()
			return ctx.Err()
		}, func(error) {})
		if err != blocker || asked != 2 {
			t.Errorf("%v after %d questions, want %v after 2", err, asked, blocker)
		}
	})
}
