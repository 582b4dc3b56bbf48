package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// made makes a set of "name=content" words; the contents are made up.
func made(k content.Kind, words string) *content.Set {
	resources := []*content.Resource{}
	for _, word := range strings.Fields(words) {
		name, text, _ := strings.Cut(word, "=")
		resources = append(resources, content.Encode(name, wrapperspb.String(name+"="+text)))
	}
	return content.SetOf(k, resources)
}

func state(clusters, endpoints, listeners, routes string) *content.Snapshot {
	return &content.Snapshot{
		content.CDS: made(content.CDS, clusters), content.EDS: made(content.EDS, endpoints), content.SDS: made(content.SDS, ""), content.LDS: made(content.LDS, listeners), content.RDS: made(content.RDS, routes),
		content.NDS: made(content.NDS, ""),
	}
}

// scan reads a request as the server does.
func scan(t testing.TB, in *content.Interner, m proto.Message) *Request {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Intern: in}
	if _, ok := m.(*discoveryv3.DeltaDiscoveryRequest); ok {
		r.Variant = content.Delta
	}
	if err := r.scan(data); err != nil {
		t.Fatal(err)
	}
	return r
}

// envoy is the client end of a protocol: it keeps nonce and version of each kind as Envoy does.
type envoy struct {
	t        *testing.T
	protocol *Session
	clock    time.Time
	last     [content.Kinds]Response // received last
	accepted [content.Kinds]string   // version
	names    [content.Kinds][]string
}

func connect(t *testing.T, s *content.Snapshot) *envoy {
	return &envoy{t: t, clock: now, protocol: New(content.SotW, s, content.NewShare(content.NewInterner()), MeshState{})}
}

// ask sends a request of names, with the nonce of the last response, and describes the responses.
func (e *envoy) ask(k content.Kind, names ...string) string {
	e.t.Helper()
	e.names[k] = names
	return e.send(k, &discoveryv3.DiscoveryRequest{})
}

func (e *envoy) ack(k content.Kind) string {
	e.t.Helper()
	e.accepted[k] = e.last[k].Version
	return e.send(k, &discoveryv3.DiscoveryRequest{})
}

func (e *envoy) nack(k content.Kind, text string) string {
	e.t.Helper()
	return e.send(k, &discoveryv3.DiscoveryRequest{ErrorDetail: refused(text)})
}

func refused(text string) *statuspb.Status { return &statuspb.Status{Code: 13, Message: text} }

func (e *envoy) send(k content.Kind, r *discoveryv3.DiscoveryRequest) string {
	e.t.Helper()
	r.ResponseNonce, r.VersionInfo, r.ResourceNames = e.last[k].Nonce, e.accepted[k], e.names[k]
	return e.raw(k, r)
}

func (e *envoy) raw(k content.Kind, r *discoveryv3.DiscoveryRequest) string {
	e.t.Helper()
	responses, _, err := e.protocol.Request(k, scan(e.t, e.protocol.share.Interner, r), e.clock)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.receive(responses)
}

func (e *envoy) push(s *content.Snapshot) string {
	e.t.Helper()
	e.protocol.Renew(s, content.NewShare(e.protocol.share.Interner), e.protocol.mesh)
	return e.receive(e.protocol.Flush(e.clock))
}

// receive describes responses as "cds:a,b eds:a", and checks the rules that apply to every response.
func (e *envoy) receive(responses []Response) string {
	e.t.Helper()
	var out []string
	for _, r := range responses {
		if r.Nonce == "" || r.Version == "" || r.Nonce == e.last[r.Kind].Nonce {
			e.t.Errorf("response %v: want a version and a nonce of its own", r)
		}
		var names []string
		for _, resource := range resourcesOf(r) {
			if slices.Contains(names, resource.Name) {
				e.t.Errorf("%s is in one response twice", resource.Name)
			}
			if resource.Exists() || !r.Kind.Whole() {
				names = append(names, resource.Name)
			}
		}
		slices.Sort(names)
		e.last[r.Kind] = r
		out = append(out, fmt.Sprintf("%s:%s", r.Kind, strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}

// start goes through Envoy's own order until everything of s is accepted.
func start(t *testing.T, s *content.Snapshot) *envoy {
	t.Helper()
	e := connect(t, s)
	names := func(k content.Kind) (out []string) {
		for _, r := range s[k].All() {
			out = append(out, r.Name)
		}
		return out
	}
	e.ask(content.CDS)
	if s[content.EDS].Size() > 0 {
		e.ask(content.EDS, names(content.EDS)...)
		e.ack(content.EDS)
	}
	e.ack(content.CDS)
	e.ask(content.LDS)
	if s[content.RDS].Size() > 0 {
		e.ask(content.RDS, names(content.RDS)...)
		e.ack(content.RDS)
	}
	e.ack(content.LDS)
	for k := range content.Kinds {
		if !e.protocol.settled(k) {
			t.Fatalf("%s is not settled after a start", k.TypeURL())
		}
	}
	return e
}

func resourcesOf(r Response) (out []*content.Resource) {
	for _, p := range r.Update.Lists {
		out = append(out, p.Resources...)
	}
	return out
}

func (e *envoy) want(what, got, want string) {
	e.t.Helper()
	if got != want {
		e.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
