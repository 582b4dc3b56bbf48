package ads

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// many returns the protocol of a delta client with endpoints of n names.
func many(n int) (*protocol, func(i int) *names) {
	var words strings.Builder
	for i := range n {
		fmt.Fprintf(&words, "c%d=1 ", i)
	}
	in := newInterner()
	return newProtocol(delta, state("", words.String(), "", ""), newShare(in)), func(i int) *names {
		return in.of([]string{fmt.Sprint("c", i)})
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
			take := func(r *request) {
				responses, _, err := p.request(eds, r, now)
				if err != nil {
					t.Fatal(err)
				}
				for i := range responses {
					received += len(resourcesOf(responses[i]))
				}
			}
			for i := range n {
				r := &request{variant: delta, names: name(i)}
				if i%every == 0 {
					r.nonce = p.types[eds].nonce
				}
				take(r)
			}
			take(&request{variant: delta, nonce: p.types[eds].nonce})
			for _, r := range p.flush(now.Add(time.Second)) {
				received += len(resourcesOf(r))
			}
			if received != n {
				t.Errorf("an answer every %d, %d names: %d were told", every, n, received)
			}
			costs = append(costs, p.share.work.looked.Load())
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
	subscribe := func(list *names, at time.Time) string {
		t.Helper()
		responses, _, err := p.request(eds, &request{variant: delta, names: list, nonce: p.types[eds].nonce}, at)
		if err != nil {
			t.Fatal(err)
		}
		return describe(responses)
	}
	if got := subscribe(p.share.interner.of(slices.Sorted(slices.Values(all))), now); got == "" {
		t.Error("the first names are not answered at once")
	}
	wait := 4_000 * collectForOf
	if got := subscribe(name(4_001), now.Add(wait-1)); got != "" {
		t.Errorf("soon after: got %q, want nothing", got)
	}
	if got := p.wakes(now.Add(wait - 1)); !got.Equal(now.Add(wait)) {
		t.Errorf("it wakes at %s, want %s", got, now.Add(wait))
	}
	if got := describe(p.flush(now.Add(wait))); got != "eds:c4001" {
		t.Errorf("a little later: got %q, want it", got)
	}
	if got := subscribe(name(4_002), now.Add(time.Second)); got != "eds:c4002" {
		t.Errorf("a lone name: got %q, want it at once", got)
	}
}

func describe(responses []response) string {
	var out []string
	for i := range responses {
		var names []string
		for _, r := range resourcesOf(responses[i]) {
			names = append(names, r.name)
		}
		out = append(out, fmt.Sprintf("%s:%s", responses[i].kind, strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}
