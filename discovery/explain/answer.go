package explain

import (
	"cmp"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
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

	hello clientHello
}

// Text returns the road in lines, its end last. Parts of them are the choice of tenants, as an endpoint's locality is: none leaves its line.
func (r Road) Text() string {
	var b strings.Builder
	line := func(kind, format string, args ...any) {
		b.WriteString(model.OneLine(strings.TrimRight(fmt.Sprintf("%-13s %s", kind, fmt.Sprintf(format, args...)), " ")) + "\n")
	}
	line("from", "%s", r.title())
	line("to", "%s at %s", r.To, r.At)
	step := func(s Step) {
		for _, p := range s.Passed {
			line("not "+s.Kind, "%s: %s%s", p.Name, p.Reason, by(p.Origins))
		}
		text := s.Text
		if s.Name != "" && text != "" {
			text = ": " + text
		}
		from := by(s.Origins)
		if s.More > 0 {
			from = fmt.Sprintf("%s; %d more]", strings.TrimSuffix(from, "]"), s.More)
		}
		if s.Unmade != "" && s.Unmade != notThere { // the text says that one
			from = " [no object: " + s.Unmade + "]"
		}
		line(s.Kind, "%s%s%s", s.Name, text, from)
	}
	atServer := func(s Step) bool { return strings.HasPrefix(s.Kind, "server") }
	for _, s := range r.Steps {
		if !atServer(s) {
			step(s)
		}
	}
	for _, o := range r.Outcomes {
		for _, e := range o.Endpoints {
			where := ""
			if e.Locality != "" {
				where = " in " + e.Locality
			}
			line("endpoint", "%s: %s%s, priority %d, %s%s", e.Address, e.Health, where, e.Priority, e.TLS, by(e.Origins))
		}
	}
	for _, s := range r.Steps {
		if atServer(s) {
			step(s)
		}
	}
	for _, o := range r.Outcomes {
		text := o.text()
		if len(o.Unless) > 0 {
			text += "; unless it is refused by " + strings.Join(o.Unless, ", ")
		}
		line("outcome", "%s", text)
	}
	return b.String()
}

// text says an outcome in a line.
func (o Outcome) text() string {
	out := ""
	if o.Share < 1 {
		out = percent(o.Share) + ": "
	}
	if o.Status != 0 {
		out += fmt.Sprint(o.Status)
		if o.GRPC != "" {
			out += " with grpc-status " + o.GRPC
		}
		out += " from " + cmp.Or(o.By, "the proxy")
		if o.Flag != "" {
			out += " (" + o.Flag + ")"
		}
		return out + ": " + o.Reason
	}
	out += o.Reason
	if o.Cluster != "" {
		out += ", of " + o.Cluster
	}
	if o.Path != "" {
		out += fmt.Sprintf("; it gets %s of %s", o.Path, o.Host)
	}
	return out
}

// by says where the objects are that made a part.
func by(places []Place) string {
	var out []string
	for _, p := range places {
		text := p.Object
		if p.Path != "" {
			text += " " + p.Path
		}
		if p.At != "" {
			text += " at " + p.At
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ""
	}
	return " [" + strings.Join(out, "; ") + "]"
}
