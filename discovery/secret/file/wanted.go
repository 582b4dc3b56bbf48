package file

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Want sets the secrets that are sent by a further name too, beside those of the directory. Any goroutine may call it.
func (s *Source) Want(all []secret.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.EqualFunc(all, s.wanted, secret.Wanted.Same) {
		return
	}
	s.wanted = slices.Clone(all)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Known returns the faults of the wanted secrets that were looked for, by their records: "" for one that is served.
func (s *Source) Known() map[secret.Name]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// addWanted adds a group for each wanted secret, and returns the faults of all of them. One that was good stays as it was
// while its directory has none.
func (s *Source) addWanted(groups map[string]secret.Group) (known map[secret.Name]string) {
	s.mu.Lock()
	wanted := s.wanted
	s.mu.Unlock()
	known = map[secret.Name]string{}
	for _, w := range wanted {
		key := w.As.String()
		group := s.serve(w, groups[w.Object.String()])
		_, good := s.last[key]
		switch known[w.Object] = ""; {
		case len(group.Secrets) > 0 || good:
			groups[key] = group
		default:
			known[w.Object] = strings.Join(group.Faults, ", ")
		}
	}
	return known
}

// serve returns the group of a wanted secret, made of that of its directory.
func (s *Source) serve(w secret.Wanted, from secret.Group) secret.Group {
	one := from.Secrets[w.Object]
	switch {
	case len(one.Key) > 0:
		one.Accounts = w.Accounts
		return secret.Group{Secrets: map[secret.Name]secret.Secret{w.As: one}}
	case from.Malformed():
		return secret.Group{Faults: []string{"cannot be used: " + strings.Join(from.Faults, ", ")}}
	case len(from.Secrets) > 0:
		return secret.Group{Faults: []string{"has no " + certificateFile + " and " + keyFile + " in " + filepath.Join(s.dir, w.Object.Namespace, w.Object.Name)}}
	default:
		return secret.Group{Faults: []string{"is not there: want the directory " + filepath.Join(s.dir, w.Object.Namespace, w.Object.Name)}}
	}
}

// learn sets the faults that Known returns.
func (s *Source) learn(known map[secret.Name]string) {
	s.mu.Lock()
	same := maps.Equal(known, s.known)
	s.known = known
	s.mu.Unlock()
	if !same && s.OnLearned != nil {
		s.OnLearned()
	}
}
