package ads

import (
	"context"
	"sync/atomic"
	"time"
)

// pusherCount is how many goroutines offer a new generation to all streams.
const pusherCount = 2

// pushers go over all streams for each generation. A newer one replaces the round of an older.
type pushers struct {
	round *atomic.Pointer[round]
	kick  chan struct{}
}

type round struct {
	streams []*stream
	began   time.Time
	next    atomic.Int64
	offered atomic.Int64
	took    atomic.Int64 // nanoseconds, once every stream was offered the generation
}

func newPushers() pushers {
	return pushers{round: &atomic.Pointer[round]{}, kick: make(chan struct{}, pusherCount)}
}

// start marks all streams first: a stream that is sending sees the mark when it has finished.
func (p pushers) start(streams []*stream) {
	for _, st := range streams {
		st.dirty.Store(true)
	}
	p.round.Store(&round{streams: streams, began: time.Now()})
	for range pusherCount {
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

func (p pushers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		}
		for {
			r := p.round.Load()
			i := r.next.Add(1) - 1
			if int(i) >= len(r.streams) || ctx.Err() != nil {
				break
			}
			r.streams[i].offer()
			if int(r.offered.Add(1)) == len(r.streams) {
				r.took.Store(int64(time.Since(r.began)))
			}
		}
	}
}

// took returns the duration of the last round, or its duration so far.
func (p pushers) took(now time.Time) time.Duration {
	r := p.round.Load()
	switch {
	case r == nil || len(r.streams) == 0:
		return 0
	case r.took.Load() > 0:
		return time.Duration(r.took.Load())
	}
	return now.Sub(r.began)
}
