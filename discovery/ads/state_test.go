package ads

import (
	"strings"
	"testing"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var base_ads = state_ads("a=1 b=1", "a=1 b=1", "l=1", "r=1")

// content makes a set of "name=content" words; the contents are made up.
func content_ads(k kind, words string) *set {
	resources := []*resource{}
	for _, word := range strings.Fields(words) {
		name, text, _ := strings.Cut(word, "=")
		resources = append(resources, encode(name, wrapperspb.String(name+"="+text)))
	}
	return setOf(k, resources)
}

func state_ads(clusters, endpoints, listeners, routes string) *snapshot {
	return &snapshot{
		cds: content_ads(cds, clusters), eds: content_ads(eds, endpoints), sds: content_ads(sds, ""), lds: content_ads(lds, listeners), rds: content_ads(rds, routes),
		nds: content_ads(nds, ""),
	}
}

func refused_ads(text string) *statuspb.Status { return &statuspb.Status{Code: 13, Message: text} }

// settled returns the protocol of an Envoy that has accepted all of base, and the nonce of its endpoints.
func settled(t *testing.T, in *interner) (p *protocol, nonce string) {
	t.Helper()
	p = newProtocol(sotw, base_ads, newShare(in))
	var nonces [kinds]string
	for _, ask := range []struct {
		kind  kind
		names []string
	}{{cds, nil}, {eds, []string{"a", "b"}}, {eds, []string{"a", "b"}}, {cds, nil}, {lds, nil}, {rds, []string{"r"}}, {rds, []string{"r"}}, {lds, nil}} {
		responses, _, err := p.request(ask.kind, &request{names: in.of(ask.names), nonce: nonces[ask.kind]}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range responses {
			nonces[r.kind] = r.nonce
		}
	}
	if !p.reached() {
		t.Fatal("not settled after a start")
	}
	return p, nonces[eds]
}
