package ads

import (
	"strings"
	"testing"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

var base = state("a=1 b=1", "a=1 b=1", "l=1", "r=1")

// content makes a set of "name=content" words; the contents are made up.
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

func refused(text string) *statuspb.Status { return &statuspb.Status{Code: 13, Message: text} }

// settled returns the protocol of an Envoy that has accepted all of base, and the nonce of its endpoints.
func settled(t *testing.T, in *content.Interner) (p *protocol.Session, nonce string) {
	t.Helper()
	p = protocol.New(content.SotW, base, content.NewShare(in), protocol.MeshState{})
	var nonces [content.Kinds]string
	for _, ask := range []struct {
		kind  content.Kind
		names []string
	}{{content.CDS, nil}, {content.EDS, []string{"a", "b"}}, {content.EDS, []string{"a", "b"}}, {content.CDS, nil}, {content.LDS, nil}, {content.RDS, []string{"r"}}, {content.RDS, []string{"r"}}, {content.LDS, nil}} {
		responses, _, err := p.Request(ask.kind, &protocol.Request{Names: in.Of(ask.names), Nonce: nonces[ask.kind]}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range responses {
			nonces[r.Kind] = r.Nonce
		}
	}
	if !p.Reached() {
		t.Fatal("not settled after a start")
	}
	return p, nonces[content.EDS]
}
