package sds

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// A gate's certificate comes when the gate is opened, not before, beside the workload's; its key belongs to it.
func TestOpen(t *testing.T) {
	var log strings.Builder
	s := newServer(&log)
	s.Set(NewSecrets(nil, nil, []byte("roots")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := client(t, s).StreamSecrets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	receive := func() (names []string, last *tlsv3.Secret) {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range r.Resources {
			last = &tlsv3.Secret{}
			if err := resource.UnmarshalTo(last); err != nil {
				t.Fatal(err)
			}
			names = append(names, last.Name)
		}
		return names, last
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: []string{"gate", Roots}}); err != nil {
		t.Fatal(err)
	}
	if names, _ := receive(); !slices.Equal(names, []string{Roots}) {
		t.Fatalf("the first answer is %s", names)
	}
	if err := s.Open("another"); err != nil {
		t.Fatal(err)
	}
	if err := s.Open("gate"); err != nil {
		t.Fatal(err)
	}
	names, gate := receive()
	if !slices.Equal(names, []string{Roots, "gate"}) {
		t.Fatalf("the second answer is %s", names)
	}
	pair := gate.GetTlsCertificate()
	if _, err := tls.X509KeyPair(pair.GetCertificateChain().GetInlineBytes(), pair.GetPrivateKey().GetInlineBytes()); err != nil {
		t.Error(err)
	}
	s.Shut("gate")
	if all, _ := s.newest(); len(all) != 2 {
		t.Errorf("after Shut there are %d secrets, want another's and the roots", len(all))
	}
}
