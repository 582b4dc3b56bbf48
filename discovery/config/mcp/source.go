package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// maxResponse is the largest response that is accepted, in bytes: all objects of a kind.
const maxResponse = 64 << 20

// patience is how long a server may take to answer for every kind.
const patience = time.Minute

// Source sends the objects of a server of Istio's API generator, and then changes. Only one Run may be active at a
// time.
type Source struct {
	address  string // host:port
	tls      *networking.ClientTLSSettings
	grace    time.Duration // how long an empty first answer of a server is not applied
	patience time.Duration
	log      *slog.Logger

	Domain model.Domain // of the node that the server gets; set it before Run

	last    *state // of the run before
	held    atomic.Pointer[hold]
	release chan struct{} // has a value when an operator has asked
}

// hold is an answer with fewer objects than before, which is not applied yet.
type hold struct {
	lost         string
	objects      int
	since, until time.Time
}

// New returns the Source of a server. tls is nil for plain text.
func New(address string, tls *networking.ClientTLSSettings, grace time.Duration, log *slog.Logger) *Source {
	return &Source{address: address, tls: tls, grace: grace, patience: patience, log: log.With("address", "xds://"+address), release: make(chan struct{}, 1)}
}

// Held returns what is served though the server, which may have just started, has answered without it: a text, the number of objects,
// since when, and until when; "" and 0 for nothing.
func (s *Source) Held() (lost string, objects int, since, until time.Time) {
	if now := s.held.Load(); now != nil {
		return now.lost, now.objects, now.since, now.until
	}
	return "", 0, time.Time{}, time.Time{}
}

// Release applies an answer that is held.
func (s *Source) Release() {
	select {
	case s.release <- struct{}{}:
	default:
	}
}

// Run follows the server until ctx is done or the stream ends.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	secure, err := secure(s.address, s.tls)
	if err != nil {
		return err
	}
	client, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(secure), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
	if err != nil {
		return fmt.Errorf("dial %s: %w", s.address, err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := make(chan *discoveryv3.DiscoveryResponse)
	lost := make(chan error, 1)
	done := make(chan struct{})
	st := newState("xds://"+s.address, s.last)
	s.last = st
	conversation := &stream{domain: s.Domain, asked: slices.Sorted(maps.Keys(st.kinds))}
	go func() {
		defer close(done)
		lost <- conversation.run(ctx, client, in)
	}()
	err = s.follow(ctx, st, in, lost, updates)
	cancel()
	<-done
	return err
}

func (s *Source) follow(ctx context.Context, st *state, in <-chan *discoveryv3.DiscoveryResponse, lost <-chan error, updates chan<- model.Update) error {
	late := time.NewTimer(s.patience)
	defer late.Stop()
	defer s.held.Store(nil)
	select {
	case <-s.release: // of an earlier answer
	default:
	}
	var believed <-chan time.Time
	pending, synced, wait := model.Update{Groups: map[string]model.Group{}}, false, false
	for {
		var out chan<- model.Update
		if len(pending.Groups) > 0 || wait {
			out = updates
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read configuration from %s: %w", st.address, err)
		case out <- pending:
			pending, wait = model.Update{Groups: map[string]model.Group{}, Synced: synced}, false
			continue
		case <-late.C:
			if !st.answered() {
				return fmt.Errorf("read configuration from %s: no answer within %s for %q", st.address, s.patience, st.missing())
			}
			continue
		case <-believed:
			if !synced {
				synced, pending.Certain = true, true
			}
		case <-s.release:
			if !synced && believed != nil {
				synced, pending.Certain = true, true
				s.log.Warn("server is believed, as an operator has asked")
			}
		case r := <-in:
			groups, warnings := st.apply(r.TypeUrl, r.Resources)
			maps.Copy(pending.Groups, groups)
			s.logWarnings(warnings)
			switch {
			case synced || !st.answered():
			case !st.incomplete():
				synced = true
			case believed == nil:
				believed = s.beginHold(st)
			}
		}
		if synced && !pending.Synced {
			pending.Synced, wait = true, true
			s.endHold(st)
		}
	}
}

// beginHold holds the answer of a server without objects that it had, and returns when it is applied.
func (s *Source) beginHold(st *state) <-chan time.Time {
	s.log.Warn("server answers without objects that it had, or without any: it may have just started, so it is not believed yet", "for", s.grace)
	lost, objects := st.lost()
	now := time.Now()
	s.held.Store(&hold{lost, objects, now, now.Add(s.grace)})
	return time.After(s.grace)
}

// endHold applies what the server has sent.
func (s *Source) endHold(st *state) {
	st.first = false
	s.held.Store(nil)
	clear(st.had)
	clear(st.emptyTypes)
	s.log.Info("configuration read", "objects", st.count())
}

func (s *Source) logWarnings(warnings []config.Problem) {
	for _, p := range warnings {
		p.File = "" // each log line names the server
		p.Log(s.log)
	}
}

// stream is the protocol of a run: it requests every type, and answers each response.
type stream struct {
	domain model.Domain
	asked  []string
}

func (c *stream) run(ctx context.Context, client *grpc.ClientConn, in chan<- *discoveryv3.DiscoveryResponse) error {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(client).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	node := &corev3.Node{
		// Istio's form of a node ID, which its server requires from every client.
		Id: "sidecar~127.0.0.1~pilotlight-discovery.istio-system~istio-system.svc." + c.domain.String(), UserAgentName: "pilotlight-discovery",
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"GENERATOR": structpb.NewStringValue("api"), "NAMESPACE": structpb.NewStringValue("istio-system"),
		}},
	}
	for _, url := range c.asked {
		if err := stream.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: url}); err != nil {
			return c.reason(stream, err)
		}
		node = nil
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		answer := &discoveryv3.DiscoveryRequest{TypeUrl: r.TypeUrl, VersionInfo: r.VersionInfo, ResponseNonce: r.Nonce}
		if _, ok := slices.BinarySearch(c.asked, r.TypeUrl); ok {
			select {
			case in <- r:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			answer.VersionInfo = ""
			answer.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "nobody asked for this type"}
		}
		if err := stream.Send(answer); err != nil {
			return c.reason(stream, err)
		}
	}
}

// reason returns why the server ended the stream: Send only reports that it ended.
func (c *stream) reason(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient, err error) error {
	for {
		if _, cause := stream.Recv(); cause != nil {
			return errors.Join(cause, err)
		}
	}
}
