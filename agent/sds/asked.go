package sds

import (
	"maps"
	"slices"
	"sync"
)

// maxAsked is how many file-based secrets all streams together may subscribe to.
const maxAsked = 1000

// asked counts the streams that subscribe to each file-based secret.
type asked struct {
	mu      sync.Mutex
	streams map[string]int
	changed chan struct{} // has a value when names were added since it was last read
}

// Asked returns the names of the file-based secrets that streams subscribe to now.
func (s *Server) Asked() []string {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	return slices.Sorted(maps.Keys(s.asked.streams))
}

// AskedCh returns a channel that has a value after Asked has got a further name.
func (s *Server) AskedCh() <-chan struct{} {
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	return s.asked.channel()
}

func (a *asked) channel() chan struct{} {
	if a.changed == nil {
		a.changed = make(chan struct{}, 1)
	}
	return a.changed
}

// replace replaces a stream's subscriptions by new ones, and returns those that are in effect. Names beyond maxAsked
// are refused.
func (a *asked) replace(before map[string]bool, names map[string]bool) (now map[string]bool, refused []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now = map[string]bool{}
	for name := range names {
		if _, ok := FilesOf(name); !ok {
			continue
		}
		_, known := a.streams[name]
		switch {
		case before[name]:
		case !known && len(a.streams) >= maxAsked:
			refused = append(refused, name)
			continue
		case !known:
			select {
			case a.channel() <- struct{}{}:
			default:
			}
			fallthrough
		default:
			if a.streams == nil {
				a.streams = map[string]int{}
			}
			a.streams[name]++
		}
		now[name] = true
	}
	for name := range before {
		if now[name] {
			continue
		}
		if a.streams[name]--; a.streams[name] == 0 {
			delete(a.streams, name)
		}
	}
	return now, refused
}
