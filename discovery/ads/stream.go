package ads

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// maxUnknownTypes bounds how many types that are not served a stream is logged for.
const maxUnknownTypes = 8

// stream carries one Envoy's protocol.
type stream struct {
	server    *Server
	log       *slog.Logger
	peer      string
	connected time.Time
	wake      chan struct{} // holds one mark that there is something newer

	mu       sync.Mutex // debug pages read what the sender changes
	node     string
	view     xds.View
	protocol *protocol // nil until the first request says who asks
	unknown  map[string]bool
}

type wire = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer

// run serves until Envoy leaves, breaks the protocol, or done closes. It is the stream's sender; requests come from
// the receiver one by one, so that an Envoy that does not read is not read either.
func (st *stream) run(w wire, done <-chan struct{}) error {
	requests, failed := make(chan *discoveryv3.DiscoveryRequest), make(chan error, 1)
	st.server.receivers.Go(func() { failed <- receive(w, requests) })
	for {
		var responses []response
		var err error
		select {
		case r := <-requests:
			responses, err = st.request(r, time.Now())
		case <-st.wake:
			responses = st.push()
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-done:
			return status.Error(codes.Unavailable, "shutting down")
		}
		if err != nil {
			return err
		}
		for _, r := range responses {
			st.log.Debug("push", "node", st.node, "type_url", r.kind.typeURL(), "nonce", r.nonce, "version", r.version,
				"resources", len(r.resources))
			if err := w.Send(message(r)); err != nil {
				return err
			}
		}
	}
}

func receive(w wire, requests chan<- *discoveryv3.DiscoveryRequest) error {
	for {
		r, err := w.Recv()
		if err != nil {
			return err
		}
		select {
		case requests <- r:
		case <-w.Context().Done():
			return w.Context().Err()
		}
	}
}

// message is the one place where responses become bytes; the resources in them are encoded already.
func message(r response) *discoveryv3.DiscoveryResponse {
	out := &discoveryv3.DiscoveryResponse{
		TypeUrl: r.kind.typeURL(), VersionInfo: r.version, Nonce: r.nonce,
		Resources: make([]*anypb.Any, 0, len(r.resources)),
	}
	for _, resource := range r.resources {
		out.Resources = append(out.Resources, resource.content)
	}
	return out
}

// request answers one request. Its errors end the stream.
func (st *stream) request(r *discoveryv3.DiscoveryRequest, now time.Time) ([]response, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.identify(r); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	k, served := kindOf(r.TypeUrl)
	if !served {
		st.logUnknown(r.TypeUrl)
		return nil, nil
	}
	st.protocol.latest = st.newest() // an answer that frees the way brings the newest, whoever wakes first
	responses, nack := st.protocol.request(k, r, now)
	if nack != nil {
		st.log.Warn("response refused", "node", st.node, "type_url", r.TypeUrl, "version", nack.Version, "error", nack.Text)
	}
	return responses, nil
}

// identify reads the node of the first request; later ones may leave it out.
func (st *stream) identify(r *discoveryv3.DiscoveryRequest) error {
	if r.TypeUrl == "" {
		return errors.New("request has no type_url, which an aggregated stream needs")
	}
	if st.protocol != nil {
		return nil
	}
	if r.GetNode().GetId() == "" {
		return errors.New("the stream's first request has no node.id")
	}
	proxy, err := xds.ParseProxy(r.Node)
	if err != nil {
		return err
	}
	st.node, st.view = proxy.ID.String(), xds.ViewOf(proxy)
	st.protocol = newProtocol(st.newest())
	st.log.Info("proxy connected", "node", st.node, "peer", st.peer)
	return nil
}

func (st *stream) logUnknown(typeURL string) {
	if st.unknown[typeURL] || len(st.unknown) == maxUnknownTypes {
		return
	}
	if st.unknown == nil {
		st.unknown = map[string]bool{}
	}
	st.unknown[typeURL] = true
	st.log.Info("type is not served", "node", st.node, "type_url", typeURL)
}

func (st *stream) push() []response {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.protocol == nil {
		return nil // its first request will find the newest
	}
	return st.protocol.push(st.newest())
}

func (st *stream) newest() *snapshot { return st.server.current.Load().snapshot(st.view) }

func (st *stream) client() Client {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := Client{Node: st.node, Peer: st.peer, Connected: st.connected, Types: []ClientType{}}
	if st.protocol != nil {
		c.Types = st.protocol.describe()
	}
	return c
}

func peerOf(w wire) string {
	if p, ok := peer.FromContext(w.Context()); ok {
		return p.Addr.String()
	}
	return ""
}
