package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// many returns the protocol of a delta client with endpoints of n names.
func many(n int) (*Session, func(i int) *content.Names) {
	var words strings.Builder
	for i := range n {
		fmt.Fprintf(&words, "c%d=1 ", i)
	}
	in := content.NewInterner()
	return New(content.Delta, state("", words.String(), "", ""), content.NewShare(in), MeshState{}), func(i int) *content.Names {
		return in.Of([]string{fmt.Sprint("c", i)})
	}
}

// The cost of names that are subscribed one by one is linear in their number, not quadratic, with any number of answers
// in between; and all are answered.
func TestSubscriptionsOneByOneAreLinear(t *testing.T) {
	for _, every := range []int{1, 7, 1 << 30} {
		var costs []int64
		for _, n := range []int{500, 2_000} {
			p, name := many(n)
			received := 0
			take := func(r *Request) {
				responses, _, err := p.Request(content.EDS, r, now)
				if err != nil {
					t.Fatal(err)
				}
				for i := range responses {
					received += len(resourcesOf(responses[i]))
				}
			}
			for i := range n {
				r := &Request{Variant: content.Delta, Names: name(i)}
				if i%every == 0 {
					r.Nonce = p.types[content.EDS].nonce
				}
				take(r)
			}
			take(&Request{Variant: content.Delta, Nonce: p.types[content.EDS].nonce})
			for _, r := range p.Flush(now.Add(time.Second)) {
				received += len(resourcesOf(r))
			}
			if received != n {
				t.Errorf("an answer every %d, %d names: %d were sent", every, n, received)
			}
			costs = append(costs, p.share.Work.Looked.Load())
		}
		if costs[1] > 6*costs[0] {
			t.Errorf("an answer every %d: 500 names cost %d, 2,000 cost %d", every, costs[0], costs[1])
		}
	}
}

// A name that is added to a long subscription soon after others waits a little, and is then answered without a further
// event.
func TestLongSubscriptionsCollectNames(t *testing.T) {
	p, name := many(5_000)
	var all []string
	for i := range 4_000 {
		all = append(all, fmt.Sprint("c", i))
	}
	subscribe := func(list *content.Names, at time.Time) string {
		t.Helper()
		responses, _, err := p.Request(content.EDS, &Request{Variant: content.Delta, Names: list, Nonce: p.types[content.EDS].nonce}, at)
		if err != nil {
			t.Fatal(err)
		}
		return describe(responses)
	}
	if got := subscribe(p.share.Interner.Of(slices.Sorted(slices.Values(all))), now); got == "" {
		t.Error("the first names are not answered at once")
	}
	wait := 4_000 * collectForOf
	if got := subscribe(name(4_001), now.Add(wait-1)); got != "" {
		t.Errorf("soon after: got %q, want nothing", got)
	}
	if got := p.Wakes(now.Add(wait - 1)); !got.Equal(now.Add(wait)) {
		t.Errorf("it wakes at %s, want %s", got, now.Add(wait))
	}
	if got := describe(p.Flush(now.Add(wait))); got != "eds:c4001" {
		t.Errorf("a little later: got %q, want it", got)
	}
	if got := subscribe(name(4_002), now.Add(time.Second)); got != "eds:c4002" {
		t.Errorf("a lone name: got %q, want it at once", got)
	}
}

func describe(responses []Response) string {
	var out []string
	for i := range responses {
		var names []string
		for _, r := range resourcesOf(responses[i]) {
			names = append(names, r.Name)
		}
		out = append(out, fmt.Sprintf("%s:%s", responses[i].Kind, strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}
