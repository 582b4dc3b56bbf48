package explain

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Served is what a proxy was sent.
type Served struct {
	Cluster   func(name string) (*clusterv3.Cluster, *endpointv3.ClusterLoadAssignment) // nil for none; endpoints are those that are sent apart
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration

	Server func(cluster, address string) Server // the proxy of an endpoint; nil if servers are not judged
	Client Client                               // what servers learn of this proxy
}

// Answer says what becomes of a request.
type Answer struct {
	Steps    []Step    `json:"steps"`
	Outcomes []Outcome `json:"outcomes"` // their shares add up to 1
}

// Step is a part of the configuration that the request passes.
type Step struct {
	Kind    string   `json:"kind"` // "listener", "filter chain", "virtual host", "route", "filter", "cluster", "endpoint", "server", "server policy"
	Name    string   `json:"name,omitempty"`
	Text    string   `json:"text,omitempty"`
	Origins []Place  `json:"origins,omitempty"` // the objects that made it
	More    int      `json:"more,omitempty"`    // services that made it, too, and are not named
	Unmade  string   `json:"unmade,omitempty"`  // why no object did
	Passed  []Passed `json:"passed,omitempty"`  // what was looked at before, and did not match
}

// Passed is a part that did not match, with the first condition that does not hold.
type Passed struct {
	Name    string  `json:"name"`
	Reason  string  `json:"reason"`
	Origins []Place `json:"origins,omitempty"`
}

// Place is an object, or a field of one, and where it is.
type Place struct {
	Object string `json:"object"`         // "VirtualService shop/reviews"
	Path   string `json:"path,omitempty"` // "spec.http[1].match[0]"
	At     string `json:"at,omitempty"`   // "mesh.yaml:12", or the record of a registry
}

// Outcome is what becomes of a share of such requests.
type Outcome struct {
	Share float64 `json:"share"` // more than 0, at most 1

	// Status is what a proxy itself answers; 0 if a server answers, or nobody does. To a request of gRPC that is 200, and GRPC says which error.
	Status int    `json:"status,omitempty"`
	GRPC   string `json:"grpcStatus,omitempty"` // the number that the answer has as grpc-status
	By     string `json:"by,omitempty"`         // "the server's proxy"; "" for the client's
	Flag   string `json:"flag,omitempty"`       // Envoy's response flag: "NR", "NC", "UH", "FI"
	Closed bool   `json:"closed,omitempty"`     // the connection, without an answer
	Reason string `json:"reason"`

	// Unless are the filters on the way that explain does not judge: one of them, such as that of a policy, may answer before.
	Unless []string `json:"unless,omitempty"`

	// Of a request that is sent on.
	Cluster   string     `json:"cluster,omitempty"`
	Host      string     `json:"host,omitempty"` // the authority and the path that the server gets
	Path      string     `json:"path,omitempty"`
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Resolved  bool       `json:"resolved,omitempty"` // Envoy finds the endpoints itself: by DNS, or the original destination
	Limits
	Delay *Delay `json:"delay,omitempty"` // that a fault adds; nil for none
}

// Endpoint is a server that may get the request.
type Endpoint struct {
	Address  string  `json:"address"`
	Health   string  `json:"health"`
	Locality string  `json:"locality,omitempty"`
	Priority uint32  `json:"priority"`
	TLS      string  `json:"tls"`
	Origins  []Place `json:"origins,omitempty"`

	hello hello
}
