package retry

import (
	"context"
	"time"
)

// Delays are the pauses between attempts.
type Delays struct {
	First, Last time.Duration  // the first pause, and the longest: each is twice the one before
	Long        time.Duration  // after an attempt that lasted so long the pauses begin again at First; Last if 0
	Random      func() float64 // of [0, 1): shortens each pause by up to its half, so that replicas do not try all at once; nil for no change
}

// Do calls attempt until it returns nil or ctx is done. It calls failed after each error, before the pause. An attempt
// that ends when ctx is done has not failed, whatever it returns.
func (d Delays) Do(ctx context.Context, attempt func() error, failed func(err error, pause time.Duration)) {
	for last := time.Duration(0); ; {
		began := time.Now()
		err := attempt()
		if err == nil || ctx.Err() != nil {
			return
		}
		last = d.next(last, time.Since(began))
		pause := d.jittered(last)
		failed(err, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// next returns the pause after an attempt that lasted a while, given the pause before it; 0 for none.
func (d Delays) next(last, lasted time.Duration) time.Duration {
	long := d.Long
	if long == 0 {
		long = d.Last
	}
	if last == 0 || lasted >= long {
		return d.First
	}
	return min(2*last, d.Last)
}

func (d Delays) jittered(pause time.Duration) time.Duration {
	if d.Random == nil {
		return pause
	}
	return pause - time.Duration(d.Random()*float64(pause)/2)
}
