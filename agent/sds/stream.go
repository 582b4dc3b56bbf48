package sds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// maxNames is how many names one stream may subscribe to. Envoy subscribes to one.
const maxNames = 100

// stream is the state of one stream: its subscriptions and the versions sent. It does no I/O.
type stream struct {
	delta  bool
	names  map[string]bool   // subscribed to
	sent   map[string]string // the version of each secret that the client was sent
	nonces int
}

// request takes a request and returns the response to send now, nil for none, and the client's refusal of the last
// response, if it is one. An error ends the stream.
func (s *stream) request(r request, all Secrets) (message []byte, refusal string, err error) {
	if r.typeURL != "" && r.typeURL != typeURL {
		return nil, "", fmt.Errorf("type %q is not served, want %s", r.typeURL, typeURL)
	}
	if s.names == nil {
		s.names, s.sent = map[string]bool{}, map[string]string{}
	}
	if r.refused {
		refusal = fmt.Sprintf("%.500s", r.refusal)
	}
	if r.nonce != "" && r.nonce != strconv.Itoa(s.nonces) && !s.delta {
		return nil, refusal, nil // about an older response; the client has yet to answer the newest one
	}
	for _, name := range r.subscribe {
		s.names[name] = true
		delete(s.sent, name) // a client that subscribes again gets the secret again
	}
	for _, name := range r.unsubscribe {
		delete(s.names, name)
		delete(s.sent, name)
	}
	if !s.delta {
		s.replace(r.names)
	}
	if len(s.names) > maxNames {
		return nil, refusal, fmt.Errorf("%d names are asked for, want at most %d", len(s.names), maxNames)
	}
	return s.update(all), refusal, nil
}

// replace replaces the subscriptions by the names of a state-of-the-world request.
func (s *stream) replace(names []string) {
	next := map[string]bool{}
	for _, name := range names {
		next[name] = true
	}
	maps.DeleteFunc(s.sent, func(name string, _ string) bool { return !next[name] })
	s.names = next
}

// update returns the response that brings the client up to date with these secrets, nil if it is. A state-of-the-world
// response has all existing secrets that the client subscribes to.
func (s *stream) update(all Secrets) []byte {
	var sent []Secret
	news := false
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		secret, exists := all[name]
		if !exists {
			continue
		}
		changed := s.sent[name] != secret.version
		news = news || changed
		if changed || !s.delta {
			sent = append(sent, secret)
		}
	}
	if !news {
		return nil
	}
	version := ""
	for _, secret := range sent {
		s.sent[secret.Name] = secret.version
		version += secret.version
	}
	s.nonces++
	return response(sent, version, strconv.Itoa(s.nonces), s.delta)
}
