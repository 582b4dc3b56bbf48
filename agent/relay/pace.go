package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// Pauses between two attempts at a discovery that is away. To each comes up to as much again twice, by chance: no herd comes back at once.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 4 * time.Second
	soon       = 2 // refusals that change nothing: a discovery that starts refuses for a moment
)

// pace counts the attempts in a row that have cost discovery something, and that it has not answered. Where nobody takes a connection, the
// pace stays: so discovery is noticed soon when it returns. The zero pace has none.
type pace struct{ refusals atomic.Int64 }

// failed notes a failed attempt.
func (p *pace) failed(err error) {
	if !unreached(err) {
		p.refusals.Add(1)
	}
}

// answered notes that discovery answers.
func (p *pace) answered() { p.refusals.Store(0) }

// pause waits before the next attempt. It returns false if ctx ends before.
func (p *pace) pause(ctx context.Context) bool {
	timer := time.NewTimer(pauseAfter(p.refusals.Load(), rand.Float64()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// untilAnswered asks discovery, with pauses before, until it answers. It returns false if ctx ends before.
func (p *pace) untilAnswered(ctx context.Context, ask func() error, lost func(why string)) bool {
	for p.pause(ctx) {
		err := ask()
		if err == nil {
			p.answered()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		p.failed(err)
		lost(err.Error())
	}
	return false
}

// pauseAfter returns the pause after a number of refusals in a row; share, below 1, is chance.
func pauseAfter(refusals int64, share float64) time.Duration {
	least := min(firstPause<<min(max(refusals-soon, 0), 10), lastPause)
	return least + time.Duration(2*share*float64(least))
}

// unreached reports whether an attempt has not reached discovery.
func unreached(err error) bool {
	var dial *net.OpError
	var lookup *net.DNSError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &lookup)
}

// refusal is the status with which discovery ends a stream.
type refusal struct{ code, text string }

func (r *refusal) Error() string {
	return "discovery has ended the stream: status " + r.code + ": " + r.text
}

// full reports whether discovery takes no more streams for now: a proxy that comes again at once only keeps it busy.
func full(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == frame.ResourceExhausted
}
