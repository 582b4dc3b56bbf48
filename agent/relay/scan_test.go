package relay

import (
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

func message(t testing.TB, typeURL, nonce string, removed []string, names ...string) []byte {
	t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{SystemVersionInfo: "7", TypeUrl: typeURL, Nonce: nonce, RemovedResources: removed}
	for _, name := range names {
		r.Resources = append(r.Resources, &discoveryv3.Resource{
			Name: name, Version: "v" + name, Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte("value of " + name)},
		})
	}
	text, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A response is read alike in whatever pieces it comes.
func TestScan(t *testing.T) {
	text := message(t, "t", "n", []string{"gone"}, "a", "b")
	for size := 1; size <= len(text); size++ {
		var s scan
		for piece := range slices.Chunk(text, size) {
			if err := s.write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
		if s.typeURL != "t" || s.resource != "t" || s.nonce != "n" || !slices.Equal(s.names, []string{"a", "b"}) || !slices.Equal(s.removals, []string{"gone"}) ||
			s.last != (lastgood.Mark{Name: "gone", Removed: true}) {
			t.Errorf("in pieces of %d: %+v", size, s)
		}
	}
	var half scan
	if err := half.write(text[:len(text)-1]); err != nil || half.end() == nil {
		t.Errorf("half a message is a whole one: %v", err)
	}
}

// What protobuf reads is read alike, and nothing panics.
func FuzzScan(f *testing.F) {
	f.Add(message(f, "t", "n", []string{"gone"}, "a", "b"), 3)
	f.Add([]byte("\x12\x04\x1a\x7faa"), 1)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size < 1 {
			return
		}
		var s scan
		var err error
		for piece := range slices.Chunk(text, size) {
			if err = s.write(piece); err != nil {
				break
			}
		}
		if err == nil {
			err = s.end()
		}
		var want discoveryv3.DeltaDiscoveryResponse
		if err != nil || proto.Unmarshal(text, &want) != nil {
			return
		}
		if s.typeURL != want.TypeUrl || s.nonce != want.Nonce || len(s.names) != len(want.Resources) {
			t.Errorf("got %+v, want %v", s, &want)
		}
	})
}
