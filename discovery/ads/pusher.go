package ads

import (
	"context"
	"sync/atomic"
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
	next    atomic.Int64
}

func newPushers() pushers {
	return pushers{round: &atomic.Pointer[round]{}, kick: make(chan struct{}, pusherCount)}
}

// start marks all streams first: one that is sending sees the mark when it is done.
func (p pushers) start(streams []*stream) {
	for _, st := range streams {
		st.dirty.Store(true)
	}
	p.round.Store(&round{streams: streams})
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
		}
	}
}
