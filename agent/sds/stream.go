package sds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pilotlight/pilotlight/agent/frame"
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

// typeURL is the only type that is served.
const typeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// request holds the fields of a DiscoveryRequest or a DeltaDiscoveryRequest
// (envoy/service/discovery/v3/discovery.proto) that are used here.
type request struct {
	typeURL     string
	names       []string // state of the world: all subscriptions
	subscribe   []string // delta
	unsubscribe []string // delta
	nonce       string
	refused     bool
	refusal     string
}

func parseRequest(message []byte, delta bool) (r request, err error) {
	err = frame.Fields(message, func(number int, value []byte) error {
		if delta {
			return r.takeDelta(number, value)
		}
		return r.take(number, value)
	})
	return r, err
}

// take reads a field of DiscoveryRequest.
func (r *request) take(number int, value []byte) error {
	switch number {
	case 3:
		r.names = append(r.names, string(value))
	case 4:
		r.typeURL = string(value)
	case 5:
		r.nonce = string(value)
	case 6:
		return r.takeRefusal(value)
	}
	return nil
}

// takeDelta reads a field of DeltaDiscoveryRequest.
func (r *request) takeDelta(number int, value []byte) error {
	switch number {
	case 2:
		r.typeURL = string(value)
	case 3:
		r.subscribe = append(r.subscribe, string(value))
	case 4:
		r.unsubscribe = append(r.unsubscribe, string(value))
	case 6:
		r.nonce = string(value)
	case 7:
		return r.takeRefusal(value)
	}
	return nil
}

// takeRefusal reads a google.rpc.Status.
func (r *request) takeRefusal(status []byte) error {
	r.refused = true
	return frame.Fields(status, func(number int, value []byte) error {
		if number == 2 {
			r.refusal = string(value)
		}
		return nil
	})
}

// response is a DiscoveryResponse or a DeltaDiscoveryResponse with these secrets.
func response(secrets []Secret, version, nonce string, delta bool) []byte {
	var out []byte
	out = frame.Append(out, 1, []byte(version))
	for _, s := range secrets {
		resource := frame.Append(frame.Append(nil, 1, []byte(typeURL)), 2, s.message) // google.protobuf.Any
		if delta {
			resource = frame.Append(frame.Append(frame.Append(nil, 3, []byte(s.Name)), 1, []byte(s.version)), 2, resource) // Resource
		}
		out = frame.Append(out, 2, resource)
	}
	out = frame.Append(out, 4, []byte(typeURL))
	return frame.Append(out, 5, []byte(nonce))
}
