package envoy

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Children that could not be listed are listed again, though no further signal comes: the zombies among them would stay.
func TestReaperListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var looks []time.Duration
		reaper := Reaper{Log: slog.New(slog.DiscardHandler), list: func() ([]int, error) {
			looks = append(looks, time.Since(began))
			if len(looks) <= 2 {
				return nil, errors.New("too many open files")
			}
			return nil, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := reaper.Run(ctx, make(chan os.Signal)); err != nil {
			t.Fatal(err)
		}
		if len(looks) != 3 || looks[1] != listAgain || looks[2] != 2*listAgain {
			t.Errorf("looked after %v, want at once and each %s until it worked, then no more", looks, listAgain)
		}
	})
}
