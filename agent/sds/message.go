package sds

import "github.com/pilotlight/pilotlight/agent/frame"

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
