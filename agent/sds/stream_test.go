package sds

import (
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// told returns the names in a response, and "-" for no response.
func told(t *testing.T, message []byte) string {
	t.Helper()
	if message == nil {
		return "-"
	}
	var r discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(message, &r); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, resource := range r.Resources {
		names = append(names, resource.Name)
	}
	return strings.Join(names, " ")
}

func TestStream(t *testing.T) {
	old := NewSecrets([]byte("c1"), []byte("k1"), []byte("r1"))
	s := stream{delta: true}
	step := func(r request, all Secrets, want string) {
		t.Helper()
		message, _, err := s.request(r, all)
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, message); got != want {
			t.Errorf("%+v: told %q, want %q", r, got, want)
		}
	}
	step(request{typeURL: typeURL, subscribe: []string{"ROOTCA", "unknown", "default"}}, nil, "-")
	step(request{}, old, "ROOTCA default")
	step(request{nonce: "1"}, old, "-")
	step(request{nonce: "1", refused: true}, old, "-") // what was refused is not sent again
	step(request{subscribe: []string{"default"}}, old, "default")
	step(request{unsubscribe: []string{"default"}}, NewSecrets([]byte("c2"), []byte("k2"), []byte("r1")), "-")
	step(request{}, NewSecrets(nil, nil, nil), "-") // what is gone stays in use
	step(request{}, NewSecrets(nil, nil, []byte("r2")), "ROOTCA")

	var many []string
	for i := range maxNames + 1 {
		many = append(many, fmt.Sprint("name", i))
	}
	if _, _, err := s.request(request{subscribe: many}, old); err == nil {
		t.Error("any number of names may be asked for")
	}
}

// A request of the state of the world that answers an older response is ignored.
func TestStaleNonce(t *testing.T) {
	all := NewSecrets([]byte("c1"), []byte("k1"), []byte("r1"))
	s := stream{}
	for i, test := range []struct {
		r    request
		want bool
	}{
		{request{names: []string{"default"}}, true},
		{request{names: []string{"default"}, nonce: "1"}, false},
		{request{names: []string{"ROOTCA"}, nonce: "1"}, true},
		{request{names: []string{"default"}, nonce: "1"}, false},
		{request{names: []string{"ROOTCA", "default"}, nonce: "2"}, true},
	} {
		if message, _, err := s.request(test.r, all); err != nil || (message != nil) != test.want {
			t.Errorf("request %d: %q, %v", i, message, err)
		}
	}
}

// Messages that protobuf reads are read alike, and nothing panics.
func FuzzParseRequest(f *testing.F) {
	sotw, err := proto.Marshal(&discoveryv3.DiscoveryRequest{ResourceNames: []string{"a", "b"}, TypeUrl: typeURL, ResponseNonce: "7"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sotw, false)
	f.Add([]byte{0x0b, 0xff, 0xff}, true)
	f.Fuzz(func(t *testing.T, message []byte, delta bool) {
		got, err := parseRequest(message, delta)
		if delta {
			return
		}
		var want discoveryv3.DiscoveryRequest
		if proto.Unmarshal(message, &want) != nil || err != nil {
			return
		}
		if got.typeURL != want.TypeUrl || got.nonce != want.ResponseNonce || len(got.names) != len(want.ResourceNames) {
			t.Errorf("got %+v, want %v", got, &want)
		}
	})
}
