package relay

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// What the agent says of a proxy is in the node of each of its streams, beside what Envoy says and instead of the same key, and nothing
// else of the request is another. A stream on which something else was said ends when there is news, and no other.
func TestSays(t *testing.T) {
	b := start(t)
	var says atomic.Pointer[map[string]string]
	say := func(said map[string]string) { says.Store(&said) }
	b.relay.config.Says = func() map[string]string { return *says.Load() }
	heard := make(chan *deltaAsk, 1)
	b.answer(func(s stub) error {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		heard <- r
		if err := s.Send(&deltaReply{TypeUrl: r.TypeUrl, Nonce: "1"}); err != nil {
			return err
		}
		return mute(s)
	})
	connect := func(want map[string]string) client {
		t.Helper()
		s := b.open()
		b.ask(s, lastgood.TypeCluster, func(r *deltaAsk) {
			r.Node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
				"NAMESPACE": structpb.NewStringValue("default"), "PILOTLIGHT_VERSION": structpb.NewStringValue("of the bootstrap"),
			}}
			r.Node.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: "1"}
			r.ResourceNamesSubscribe = []string{"a", "b"}
		})
		r := <-heard
		if r.Node.Id != "n" || r.Node.UserAgentName != "envoy" || r.Node.GetUserAgentVersion() != "1" || r.TypeUrl != lastgood.TypeCluster ||
			strings.Join(r.ResourceNamesSubscribe, " ") != "a b" {
			t.Errorf("the request is another: %v", r)
		}
		got := r.Node.Metadata.AsMap()
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s is %v, want %q", key, got[key], value)
			}
		}
		if len(got) != len(want) {
			t.Errorf("the metadata is %v, want %v", got, want)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	say(map[string]string{"PILOTLIGHT_VERSION": "v1.2.3"})
	first := connect(map[string]string{"NAMESPACE": "default", "PILOTLIGHT_VERSION": "v1.2.3"})
	b.relay.Tell() // nothing is new, so the stream stays: that it ends later, and for the news, shows it
	say(map[string]string{"PILOTLIGHT_VERSION": "v1.2.3", "PILOTLIGHT_BYPASSED": "8080 10.0.0.7"})
	second := connect(map[string]string{"NAMESPACE": "default", "PILOTLIGHT_VERSION": "v1.2.3", "PILOTLIGHT_BYPASSED": "8080 10.0.0.7"})
	if n := len(b.streams()); n != 2 {
		t.Errorf("%d streams are open before there is news, want 2", n)
	}
	b.relay.Tell()
	if _, err := first.Recv(); err == nil || !strings.Contains(err.Error(), errNews.Error()) {
		t.Errorf("the stream with the old news ends with %v, want %v", err, errNews)
	}
	b.eventually(func() error {
		if streams := b.streams(); len(streams) != 1 || streams[0].said["PILOTLIGHT_BYPASSED"] == "" {
			return fmt.Errorf("the streams that stay are %v, want the second", streams)
		}
		return nil
	})
	say(map[string]string{})
	b.relay.Tell()
	if _, err := second.Recv(); err == nil || !strings.Contains(err.Error(), errNews.Error()) {
		t.Errorf("the other stream ends with %v, want %v", err, errNews)
	}
	connect(map[string]string{"NAMESPACE": "default", "PILOTLIGHT_VERSION": "of the bootstrap"})
}

func (b *bench) streams() (out []*stream) {
	b.relay.mu.Lock()
	defer b.relay.mu.Unlock()
	for s := range b.relay.streams {
		out = append(out, s)
	}
	return out
}
