package kube

import (
	"context"
	"maps"
)

// Outbox makes updates of type U, which hold changed groups of type G by their keys, from the events of a Session.
type Outbox[G, U any] struct {
	Apply   func(Event)          // is called with each event
	Changes func() map[string]G  // returns the groups that changed since the last call; not called before everything is listed
	Update  func(map[string]G) U // makes an update
	Ready   func() bool          // reports whether the first update may be sent, once everything is listed; nil for yes
	Wake    <-chan struct{}      // another reason than events to ask for changes; nil for none
	Woken   func()               // is called with each value of Wake, before Changes; may be nil
}

// Send sends updates until ctx is done: the first when everything is listed, even if it is empty. Until an update is
// received, further changes are added to it.
func (o Outbox[G, U]) Send(ctx context.Context, s *Session, updates chan<- U) {
	unsent, first := map[string]G{}, true
	for {
		var out chan<- U
		if s.Listed() && (first && (o.Ready == nil || o.Ready()) || !first && len(unsent) > 0) {
			out = updates
		}
		select {
		case e := <-s.Events():
			s.Apply(e, o.Apply)
		case <-o.Wake:
			if o.Woken != nil {
				o.Woken()
			}
		case out <- o.Update(unsent):
			unsent, first = map[string]G{}, false
			continue
		case <-ctx.Done():
			return
		}
		if s.Listed() {
			maps.Copy(unsent, o.Changes())
		}
	}
}
