package ads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// Another control plane requests the objects that configuration is made of, as from Istio's API generator (MCP over
// xDS): its stream's node has the metadata GENERATOR "api". Every type is answered once, with all objects or with none,
// and again when its objects change. There are few such clients, so only the encoding of each object is shared.

// objectSet holds all objects of a type.
type objectSet struct {
	resources []*anypb.Any
	version   string
}

// objects makes the sets of the newest mesh, and wakes the streams that wait for newer ones.
type objects struct {
	mu      sync.Mutex
	of      *model.Mesh
	sets    map[string]objectSet
	encoded map[*model.Object]*anypb.Any
	changed chan struct{} // closed by the next generation
}

func (o *objects) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
	}
	o.changed = make(chan struct{})
}

// next is closed when there is a newer generation.
func (o *objects) next() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// all returns the sets of a mesh. An object that was in the mesh before is not encoded again.
func (o *objects) all(m *model.Mesh) map[string]objectSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == m {
		return o.sets
	}
	encoded := map[*model.Object]*anypb.Any{}
	all := xds.Objects(m, func(object *model.Object) *anypb.Any {
		encoded[object] = o.encoded[object]
		if encoded[object] == nil {
			encoded[object] = xds.EncodeObject(object)
		}
		return encoded[object]
	})
	sets := make(map[string]objectSet, len(all))
	for url, resources := range all {
		sum := sha256.New()
		for _, r := range resources {
			one := sha256.Sum256(r.Value)
			sum.Write(one[:])
		}
		sets[url] = objectSet{resources, hex.EncodeToString(sum.Sum(nil)[:8])}
	}
	o.of, o.sets, o.encoded = m, sets, encoded
	return sets
}

// errForObjects reports that a stream requests objects.
var errForObjects = errors.New("the stream asks for objects")

// maxObjectTypes is how many types one stream may request; Istio has half as many.
const maxObjectTypes = 64

func asksForObjects(n *corev3.Node) bool {
	return n.GetMetadata().GetFields()["GENERATOR"].GetStringValue() == "api"
}

// objectStream is a stream that requests objects.
type objectStream struct {
	*stream
	sending sync.Mutex
	sent    map[string]sentObjects // by type
	nonce   int
	slow    *time.Timer // timer that closes the connection of a client that does not answer; nil before the first response
}

type sentObjects struct {
	version, nonce string
	waits          bool // for its answer
}

// unanswered is the type whose response Istio's client accepts and never acknowledges.
const unanswered = "core/v1alpha1/MeshConfig"

// serveObjects serves a stream from its first request on, until its client leaves.
func (st *stream) serveObjects(first *protocol.Request) error {
	st.hub.reached(st.reached, st.list.setControlPlane(st, true), time.Now()) // no push of resources waits for it
	defer st.list.setControlPlane(st, false)
	defer st.intake.Closed()
	if st.variant != content.SotW || st.only != aggregated {
		return status.Error(codes.Unimplemented, "objects are served by StreamAggregatedResources only")
	}
	ctx := st.wire.Context()
	if err := st.hub.maySeeObjects(ctx); err != nil {
		st.log.Warn("control plane refused", "peer", st.peer, "err", err)
		return err
	}
	st.log.Info("control plane connected", "peer", st.peer)
	defer st.log.Info("control plane disconnected", "peer", st.peer)
	o := &objectStream{stream: st, sent: map[string]sentObjects{}}
	ctx, cancel := context.WithCancel(ctx)
	var pushing sync.WaitGroup
	pushing.Go(func() { o.follow(ctx) })
	defer o.stopAlarm() // once nothing is sent that sets it again
	defer pushing.Wait()
	defer cancel()
	for r := first; ; {
		err := o.answer(r)
		if err == nil {
			st.intake.Awaits()
			err = st.wire.RecvMsg(r)
		}
		if err != nil {
			return ended(err)
		}
		st.intake.Handled(r.Size)
	}
}

// follow sends newer sets until ctx is done.
func (o *objectStream) follow(ctx context.Context) {
	for {
		next := o.hub.objects.next()
		if err := o.push(); err != nil {
			o.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// answer handles a request. The first request of a type is answered with any nonce: Istio's client invents one.
func (o *objectStream) answer(r *protocol.Request) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	r.Done()
	o.answered(r)
	switch known, again := o.sent[r.TypeURL]; {
	case r.Fault != nil:
		return status.Error(codes.InvalidArgument, r.Fault.Error())
	case r.TypeURL == "":
		return status.Error(codes.InvalidArgument, "request has no type_url, which an aggregated stream needs")
	case again && r.Refusal != "" && r.Nonce == known.nonce:
		o.log.Warn("control plane refuses objects", "peer", o.peer, "type_url", r.TypeURL, "err", r.Refusal)
		return nil
	case again:
		return nil
	case len(o.sent) == maxObjectTypes:
		return status.Errorf(codes.ResourceExhausted, "more than %d types are asked for", maxObjectTypes)
	default:
		return o.send(r.TypeURL, o.current()[r.TypeURL])
	}
}

func (o *objectStream) current() map[string]objectSet {
	return o.hub.objects.all(o.hub.current.Load().Mesh)
}

// push sends the requested types whose sets differ from those that were sent.
func (o *objectStream) push() error {
	o.sending.Lock()
	defer o.sending.Unlock()
	if len(o.sent) == 0 {
		return nil
	}
	all := o.current()
	for _, url := range slices.Sorted(maps.Keys(o.sent)) {
		if set := all[url]; set.version != o.sent[url].version {
			if err := o.send(url, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// answered records the answer to a response. If other responses still wait, the time limit starts again.
func (o *objectStream) answered(r *protocol.Request) {
	known := o.sent[r.TypeURL]
	if !known.waits || r.Nonce != known.nonce {
		return
	}
	known.waits = false
	o.sent[r.TypeURL] = known
	for _, other := range o.sent {
		if other.waits {
			o.slow.Reset(o.hub.limits.SendTimeout)
			return
		}
	}
	o.slow.Stop()
}

func (o *objectStream) stopAlarm() {
	o.sending.Lock()
	defer o.sending.Unlock()
	if o.slow != nil {
		o.slow.Stop()
	}
}

// send sends a set and starts the timer. gRPC accepts a response of any size while no other is in flight, so only an
// answer shows that the client reads.
func (o *objectStream) send(url string, set objectSet) error {
	o.nonce++
	nonce := strconv.Itoa(o.nonce)
	o.sent[url] = sentObjects{set.version, nonce, url != unanswered}
	switch {
	case url == unanswered:
	case o.slow == nil:
		o.slow = time.AfterFunc(o.hub.limits.SendTimeout, func() {
			o.log.Warn("control plane cut off: a response has no answer", "peer", o.peer)
			o.close()
		})
	default:
		o.slow.Reset(o.hub.limits.SendTimeout)
	}
	o.log.Debug("push of objects", "peer", o.peer, "type_url", url, "version", set.version, "resources", len(set.resources))
	return o.wire.SendMsg(&discoveryv3.DiscoveryResponse{TypeUrl: url, VersionInfo: set.version, Nonce: nonce, Resources: set.resources})
}
