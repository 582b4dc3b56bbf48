package ads

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
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// content makes a set of "name=content" words; the contents are made up.
func content(k kind, words string) *set {
	resources := []*resource{}
	for _, word := range strings.Fields(words) {
		name, text, _ := strings.Cut(word, "=")
		resources = append(resources, encode(name, wrapperspb.String(name+"="+text)))
	}
	return setOf(k, resources)
}

func state(clusters, endpoints, listeners, routes string) *snapshot {
	return &snapshot{
		cds: content(cds, clusters), eds: content(eds, endpoints), sds: content(sds, ""), lds: content(lds, listeners), rds: content(rds, routes),
		nds: content(nds, ""),
	}
}

// scan reads a request as the server does.
func scan(t testing.TB, in *interner, m proto.Message) *request {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{intern: in}
	if _, ok := m.(*discoveryv3.DeltaDiscoveryRequest); ok {
		r.variant = delta
	}
	if err := r.read(data); err != nil {
		t.Fatal(err)
	}
	return r
}

// envoy is the client end of a protocol: it keeps nonce and version of each kind as Envoy does.
type envoy struct {
	t        *testing.T
	protocol *protocol
	clock    time.Time
	last     [kinds]response // received last
	accepted [kinds]string   // version
	names    [kinds][]string
}

func connect(t *testing.T, s *snapshot) *envoy {
	return &envoy{t: t, clock: now, protocol: newProtocol(sotw, s, newShare(newInterner()))}
}

// ask sends a request of names, with the nonce of the last response, and describes the responses.
func (e *envoy) ask(k kind, names ...string) string {
	e.t.Helper()
	e.names[k] = names
	return e.send(k, &discoveryv3.DiscoveryRequest{})
}

func (e *envoy) ack(k kind) string {
	e.t.Helper()
	e.accepted[k] = e.last[k].version
	return e.send(k, &discoveryv3.DiscoveryRequest{})
}

func (e *envoy) nack(k kind, text string) string {
	e.t.Helper()
	return e.send(k, &discoveryv3.DiscoveryRequest{ErrorDetail: refused(text)})
}

func refused(text string) *statuspb.Status { return &statuspb.Status{Code: 13, Message: text} }

func (e *envoy) send(k kind, r *discoveryv3.DiscoveryRequest) string {
	e.t.Helper()
	r.ResponseNonce, r.VersionInfo, r.ResourceNames = e.last[k].nonce, e.accepted[k], e.names[k]
	return e.raw(k, r)
}

func (e *envoy) raw(k kind, r *discoveryv3.DiscoveryRequest) string {
	e.t.Helper()
	responses, _, err := e.protocol.request(k, scan(e.t, e.protocol.share.interner, r), e.clock)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.receive(responses)
}

func (e *envoy) push(s *snapshot) string {
	e.t.Helper()
	e.protocol.renew(s, newShare(e.protocol.share.interner))
	return e.receive(e.protocol.flush(e.clock))
}

// receive describes responses as "cds:a,b eds:a", and checks the rules that apply to every response.
func (e *envoy) receive(responses []response) string {
	e.t.Helper()
	var out []string
	for _, r := range responses {
		if r.nonce == "" || r.version == "" || r.nonce == e.last[r.kind].nonce {
			e.t.Errorf("response %v: want a version and a nonce of its own", r)
		}
		var names []string
		for _, resource := range resourcesOf(r) {
			if slices.Contains(names, resource.name) {
				e.t.Errorf("%s is in one response twice", resource.name)
			}
			if resource.exists() || !r.kind.whole() {
				names = append(names, resource.name)
			}
		}
		slices.Sort(names)
		e.last[r.kind] = r
		out = append(out, fmt.Sprintf("%s:%s", r.kind, strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}

// start goes through Envoy's own order until everything of s is accepted.
func start(t *testing.T, s *snapshot) *envoy {
	t.Helper()
	e := connect(t, s)
	names := func(k kind) (out []string) {
		for _, r := range s[k].all() {
			out = append(out, r.name)
		}
		return out
	}
	e.ask(cds)
	if s[eds].size() > 0 {
		e.ask(eds, names(eds)...)
		e.ack(eds)
	}
	e.ack(cds)
	e.ask(lds)
	if s[rds].size() > 0 {
		e.ask(rds, names(rds)...)
		e.ack(rds)
	}
	e.ack(lds)
	for k := range kinds {
		if !e.protocol.settled(k) {
			t.Fatalf("%s is not settled after a start", k.typeURL())
		}
	}
	return e
}

func resourcesOf(r response) (out []*resource) {
	for _, p := range r.news.parts {
		out = append(out, p.resources...)
	}
	return out
}

func (e *envoy) want(what, got, want string) {
	e.t.Helper()
	if got != want {
		e.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
