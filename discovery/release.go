package discovery

import (
	"fmt"
	"slices"
	"sync"
)

// Release ends the hold of a source's groups, which are gone at once: from now on its word counts. It returns their number, or an
// error if the source holds none. Of a source that is lacking it ends the wait of proxies. Any goroutine may call it.
func (s *Server) Release(source string) (groups int, err error) {
	statuses := s.Statuses()
	i := slices.IndexFunc(statuses, func(now SourceStatus) bool { return now.Name == source })
	switch {
	case i < 0:
		return 0, fmt.Errorf("source %.200q: no such source, want one of /debug/sources", source)
	case statuses[i].Held+statuses[i].Stranded == 0 && !statuses[i].Lacking:
		return 0, fmt.Errorf("source %q: it has no groups that are held, and no proxy waits for it", source)
	}
	if f := s.roster.all()[source]; f != nil {
		if holder, holds := f.source.(Holder); holds {
			holder.Release()
		}
	}
	s.released.add(source)
	return statuses[i].Held + statuses[i].Stranded, nil
}

// released are the names of sources that are to be released. Its zero value has none.
type released struct {
	once  sync.Once
	mu    sync.Mutex
	names []string
	ask   chan struct{}
}

// asked returns a channel that has a value if there are names.
func (r *released) asked() chan struct{} {
	r.once.Do(func() { r.ask = make(chan struct{}, 1) })
	return r.ask
}

func (r *released) add(name string) {
	r.mu.Lock()
	r.names = append(r.names, name)
	r.mu.Unlock()
	select {
	case r.asked() <- struct{}{}:
	default:
	}
}

func (r *released) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names
	r.names = nil
	return names
}
