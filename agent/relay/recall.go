package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

const probeTimeout = 10 * time.Second // for the answer to a probe; then another of discovery's addresses is tried

// recall answers from memory, until discovery answers.
func (s *stream) recall(ctx context.Context, m *lastgood.Loaded, kept []request, incoming <-chan request) error {
	defer m.Close()
	s.relay.config.Log.Warn("discovery is away: Envoy gets the last good configuration", "of", m.Contact.UTC().Format(time.RFC3339), "why", s.why())
	s.envoy.change(func(state *State) { state.Serves = m.Contact })
	s.envoy.suffice() // what is remembered has been accepted before
	s.session.Contact(m.Contact)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back := make(chan struct{})
	s.relay.calls.Go(func() {
		question := lastgood.Question(s.node, m.Memory.Versions(lastgood.TypeCluster))
		if s.relay.pace.untilAnswered(ctx, func() error { return s.probe(ctx, question) }, s.envoy.lost) {
			close(back)
		}
	})
	answers := lastgood.Answers{Memory: m.Memory}
	for {
		var r request
		if len(kept) > 0 {
			r, kept = kept[0], kept[1:]
		} else {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-back:
				s.relay.config.Log.Info("discovery answers again: Envoy goes back to it")
				return errBack
			case r = <-incoming:
				r = s.take(r)
			}
		}
		if r.Refused {
			s.relay.config.Log.Error("Envoy refuses a part of the last good configuration", "type", r.Type, "err", r.Refusal)
		}
		for _, a := range answers.Request(r.Request) {
			s.envoy.change(func(state *State) { state.Applying++ })
			if err := m.Send(s.out, a, s.session); err != nil {
				return err
			}
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
}

func (s *stream) why() (why string) {
	s.envoy.change(func(state *State) { why = state.Why })
	return why
}

// probe asks discovery once.
func (s *stream) probe(ctx context.Context, question []byte) error {
	call := s.relay.open(ctx, s.header)
	defer call.end()
	limit := time.NewTimer(probeTimeout)
	defer limit.Stop()
	sends := call.sends
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case sends <- question:
			sends = nil
		case a := <-call.answered:
			if a.err == nil {
				a.response.Body.Close()
			}
			return a.err
		case <-limit.C:
			return errors.New(fmt.Sprint("discovery has not answered for ", probeTimeout))
		}
	}
}
