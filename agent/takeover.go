package agent

import (
	"context"
	"time"
)

// takeOver goes on with the state of a supervisor that has left.
func (l *loop) takeOver(c Carried) {
	now := time.Now()
	l.state, l.history = c.state(now), c.history()
	for _, launch := range c.Living() {
		l.start(launch)
	}
	l.history.add(noted{Upgraded, -1, ""}, now, l.Log)
	for _, e := range c.Exits {
		l.step(exited{e.Epoch, e.Exit})
	}
	if c.Asked != Nothing {
		l.step(commanded{c.Asked})
	}
	l.step(tick{})
}

// Attend takes commands in place of the supervisor that has left, until ctx ends. The next image carries them out: what it does at its
// start anyway needs no carrying, and of Drain and Resume the last one counts.
func (l *Left) Attend(ctx context.Context, askCh <-chan Ask) {
	for {
		select {
		case <-ctx.Done():
			return
		case ask := <-askCh:
			if ask.Command == Drain || ask.Command == Resume {
				l.Carried.Asked = ask.Command
			}
			close(ask.Taken)
		}
	}
}

// leave has every epoch left as it is, and returns the state for the next image. An exit meanwhile is part of it.
func (l *loop) leave() Carried {
	if l.overtake != nil {
		l.overtake()
	}
	c := l.state.carry(&l.history)
	for epoch := range l.abortCh {
		l.order(epoch, Order{Leave: true})
	}
	for len(l.abortCh) > 0 {
		if e, ok := (<-l.statusCh).(exited); ok {
			delete(l.abortCh, e.epoch)
			if !e.exit.Left {
				c.Exits = append(c.Exits, CarriedExit{e.epoch, e.exit})
			}
		}
	}
	return c
}
