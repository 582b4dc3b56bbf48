package ads

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// outsider is the stream of a client that sends given requests, then leaves.
type outsider struct {
	t    *testing.T
	ctx  context.Context
	v    content.Variant
	says [][]byte
	got  int
}

func (o *outsider) Context() context.Context     { return o.ctx }
func (o *outsider) SetHeader(metadata.MD) error  { return nil }
func (o *outsider) SendHeader(metadata.MD) error { return nil }
func (o *outsider) SetTrailer(metadata.MD)       {}

func (o *outsider) RecvMsg(r any) error {
	if len(o.says) == 0 {
		return io.EOF
	}
	r.(*protocol.Request).Read(o.says[0])
	o.says = o.says[1:]
	return nil
}

// SendMsg checks that the client could read the response.
func (o *outsider) SendMsg(r any) error {
	o.got++
	buffers, err := newCodec().Marshal(r)
	if err != nil {
		o.t.Error(err)
	}
	var message proto.Message = &discoveryv3.DiscoveryResponse{}
	if o.v == content.Delta {
		message = &discoveryv3.DeltaDiscoveryResponse{}
	}
	if err := proto.Unmarshal(buffers.Materialize(), message); err != nil {
		o.t.Errorf("a response that nobody can read: %v", err)
	}
	return nil
}

// For any node and any names that a client sends, for resources of every kind: no panic, neither in the stream nor in
// the pages that show it, and every response can be read.
func FuzzStream(f *testing.F) {
	f.Add("sidecar~10.0.0.1~app.default~default.svc.cluster.local", `{"NAMESPACE": "default", "LABELS": {"app": "app"}}`, "r/z/s", "secret", "outbound|80||secret.com")
	f.Add("router~~gw~", `{"NAMESPACE": "", "INSTANCE_IPS": ",,::,x", "PROXY_CONFIG": {"gatewayTopology": {"numTrustedProxies": -1}}}`, "", "*", "")
	f.Add("sidecar~::~a~b", `{"GENERATOR": "grpc", "INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "1"}`, "//", "xds.istio.io/grpc/lds/inbound/[::]:80", "echo:50051")
	f.Add("sidecar~10.0.0.1~app.default~x", `{"PILOTLIGHT_SDS": "files", "TLS_CLIENT_KEY": "~", "UNPRIVILEGED_POD": "true"}`, "a", "inbound|80||", "|||")
	f.Add("sidecar~10.0.0.1~app.default~x", `{"NETWORK": {"a": []}, "INSTANCE_IPS": 1e308, "PROXY_CONFIG": []}`, "\u0000", "file-cert:/a~/b", "\xff")
	secrets := secretsOf("secret=chain other=x")
	f.Fuzz(func(t *testing.T, id, meta, locality, one, two string) {
		node := &corev3.Node{Id: id}
		var fields map[string]any
		if json.Unmarshal([]byte(meta), &fields) == nil {
			node.Metadata, _ = structpb.NewStruct(fields) // no client can send a value that it cannot hold
		}
		region, zone, _ := strings.Cut(locality, "/")
		node.Locality = &corev3.Locality{Region: region, Zone: zone, SubZone: one}
		limits := testLimits()
		limits.PlaintextSecrets = true
		s := New(limits, slog.New(slog.DiscardHandler))
		s.SetSecrets(secrets)
		s.Push(namingSecrets("secret", "other"), model.Change{})
		address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
		counted := s.intake.Wrap(nil, nil, address.AddrPort().Addr(), false)
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: address, AuthInfo: connInfo{intake: counted}})
		for v := range content.Variants {
			var says [][]byte
			say := func(m proto.Message) {
				if data, err := proto.Marshal(m); err == nil {
					says = append(says, data)
				}
			}
			for k := range content.Kinds {
				for _, names := range [][]string{{one}, {one, two}, {two, "*", two}, nil} {
					r := &discoveryv3.DiscoveryRequest{Node: node, TypeUrl: k.TypeURL(), ResourceNames: names, ResponseNonce: two}
					d := &discoveryv3.DeltaDiscoveryRequest{
						Node: node, TypeUrl: k.TypeURL(), ResourceNamesSubscribe: names, ResourceNamesUnsubscribe: []string{two}, ResponseNonce: one,
						InitialResourceVersions: map[string]string{one: two},
					}
					if len(names) == 3 {
						r.ErrorDetail, r.ResponseNonce = refused("resource "+two+": "+one), "1"
						d.ErrorDetail, d.ResponseNonce = refused(two), "1"
					}
					if v == content.Delta {
						say(d)
					} else {
						say(r)
					}
				}
			}
			wire := &outsider{t: t, ctx: ctx, v: v, says: says}
			st := newStream(&s.hub, s, wire, v, aggregated)
			s.add(st)
			for r := (&protocol.Request{Variant: v, Intern: s.names}); wire.RecvMsg(r) == nil; {
				if st.handle(r) != nil {
					break
				}
			}
			st.senders.Wait()
			if _, err := json.Marshal(s.Clients()); err != nil {
				t.Error(err)
			}
			if dump, err := s.Dump(st.node); err == nil {
				if _, err := json.Marshal(dump); err != nil {
					t.Error(err)
				}
			}
			_ = s.remove(st, io.EOF)
		}
	})
}
