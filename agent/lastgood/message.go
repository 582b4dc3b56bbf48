package lastgood

import (
	"slices"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// Types of resources that have a part of their own here.
const (
	TypeCluster   = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	TypeEndpoints = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	TypeRoutes    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	TypeListener  = "type.googleapis.com/envoy.config.listener.v3.Listener"
	TypeSecret    = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// Request holds the fields of a DeltaDiscoveryRequest (envoy/service/discovery/v3/discovery.proto) that count here.
type Request struct {
	Type        string
	Node        []byte // the message; nil if there is none
	NodeID      string
	Envoy       string // the version that Envoy gives of itself, as its message; empty without a node
	Subscribe   []string
	Unsubscribe []string
	Versions    map[string]string // initial_resource_versions: name → version
	Nonce       string
	Refused     bool
	Refusal     string
}

// ParseRequest reads a DeltaDiscoveryRequest.
func ParseRequest(message []byte) (r Request, err error) {
	err = frame.Fields(message, func(number int, value []byte) error {
		switch number {
		case 1:
			return r.node(value)
		case 2:
			r.Type = string(value)
		case 3:
			r.Subscribe = append(r.Subscribe, string(value))
		case 4:
			r.Unsubscribe = append(r.Unsubscribe, string(value))
		case 5:
			return r.version(value)
		case 6:
			r.Nonce = string(value)
		case 7: // google.rpc.Status
			r.Refused = true
			return frame.Fields(value, func(number int, value []byte) error {
				if number == 2 {
					r.Refusal = string(value)
				}
				return nil
			})
		}
		return nil
	})
	return r, err
}

// node reads the id of a Node, and its user_agent_build_version.version.
func (r *Request) node(message []byte) error {
	r.Node = message
	return frame.Fields(message, func(number int, value []byte) error {
		switch number {
		case 1:
			r.NodeID = string(value)
		case 8:
			return frame.Fields(value, func(number int, value []byte) error {
				if number == 1 {
					r.Envoy = string(value)
				}
				return nil
			})
		}
		return nil
	})
}

func (r *Request) version(entry []byte) error {
	name, version := "", ""
	err := frame.Fields(entry, func(number int, value []byte) error {
		switch number {
		case 1:
			name = string(value)
		case 2:
			version = string(value)
		}
		return nil
	})
	if r.Versions == nil {
		r.Versions = map[string]string{}
	}
	r.Versions[name] = version
	return err
}

// WithoutVersions returns a request without its initial_resource_versions.
func WithoutVersions(message []byte) ([]byte, error) {
	out := make([]byte, 0, len(message))
	err := frame.Fields(message, func(number int, value []byte) error {
		if number != 5 {
			out = frame.Append(out, number, value)
		}
		return nil
	})
	return out, err
}

// WithMetadata returns a request, and its node, with more metadata of that node. Protobuf merges a message that is there twice, and of
// two values of a key the later one counts.
func WithMetadata(message, node []byte, metadata map[string]string) (request, extended []byte, err error) {
	var fields []byte // of a google.protobuf.Struct
	for key, value := range metadata {
		text := frame.Append(nil, 3, []byte(value)) // Value.string_value
		fields = frame.Append(fields, 1, frame.Append(frame.Append(nil, 1, []byte(key)), 2, text))
	}
	extended = frame.Append(slices.Clip(node), 3, fields) // Node.metadata
	request = frame.Append(make([]byte, 0, len(message)+len(fields)+8), 1, extended)
	err = frame.Fields(message, func(number int, value []byte) error {
		if number != 1 {
			request = frame.Append(request, number, value)
		}
		return nil
	})
	return request, extended, err
}

// Question is a first request for all clusters by an Envoy that has these versions of them: if discovery has nothing else,
// its answer is short.
func Question(node []byte, versions map[string]string) []byte {
	out := frame.Append(frame.Append(nil, 1, node), 2, []byte(TypeCluster))
	for name, version := range versions {
		out = frame.Append(out, 5, frame.Append(frame.Append(nil, 1, []byte(name)), 2, []byte(version)))
	}
	return out
}

// resource is a Resource of a DeltaDiscoveryResponse, and its place in the message.
type resource struct {
	name, version string
	from, size    int // of the Resource's own bytes
}

// response is a DeltaDiscoveryResponse.
type response struct {
	typeURL   string
	resources []resource
	removed   []string
}

func parseResponse(message []byte) (r response, err error) {
	err = frame.Fields(message, func(number int, value []byte) error {
		switch number {
		case 2:
			one := resource{from: cap(message) - cap(value), size: len(value)}
			r.resources = append(r.resources, one)
			return r.resources[len(r.resources)-1].parse(value)
		case 4:
			r.typeURL = string(value)
		case 6:
			r.removed = append(r.removed, string(value))
		}
		return nil
	})
	return r, err
}

func (r *resource) parse(message []byte) error {
	return frame.Fields(message, func(number int, value []byte) error {
		switch number {
		case 1:
			r.version = string(value)
		case 3:
			r.name = string(value)
		}
		return nil
	})
}
