package xds

import (
	"fmt"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/google/go-cmp/cmp"
)

// Chains are written as "destinations names". A later chain loses what an earlier one matches, and nothing else.
func TestUniqueChains(t *testing.T) {
	for name, test := range map[string]struct{ chains, want string }{
		"nothing shared":           {"10.0.0.0/8 a.b; 10.0.0.0/8 c.d; 11.0.0.0/8 a.b", "10.0.0.0/8 a.b; 10.0.0.0/8 c.d; 11.0.0.0/8 a.b"},
		"the same":                 {"10.0.0.0/8 -; 10.0.0.0/8 -", "10.0.0.0/8 -"},
		"any":                      {"- -; - -; - a.b", "- -; - a.b"},
		"a name of several":        {"- a.b,c.d; - c.d,e.f", "- a.b,c.d; - e.f"},
		"a destination of several": {"10.0.0.0/8,11.0.0.0/8 -; 11.0.0.0/8,12.0.0.0/8 -", "10.0.0.0/8,11.0.0.0/8 -; 12.0.0.0/8 -"},
		"a name at one of them": {
			"10.0.0.0/8 a.b; 10.0.0.0/8,11.0.0.0/8 a.b,c.d",
			"10.0.0.0/8 a.b; 10.0.0.0/8 c.d; 11.0.0.0/8 a.b,c.d",
		},
		"most of many":                {"11.0.0.0/8 -; 10.0.0.0/8,11.0.0.0/8,12.0.0.0/8 -", "11.0.0.0/8 -; 10.0.0.0/8,12.0.0.0/8 -"},
		"an address is its own range": {"10.0.0.1 -; 10.0.0.1/32 -; 10.0.0.1/24 -", "10.0.0.1/32 -; 10.0.0.0/24 -"},
		"twice in one":                {"10.0.0.1,10.0.0.1/32 a.b,a.b", "10.0.0.1/32 a.b"},
	} {
		t.Run(name, func(t *testing.T) {
			var chains []*listenerv3.FilterChain
			for text := range strings.SplitSeq(test.chains, "; ") {
				to, names, _ := strings.Cut(text, " ")
				chains = append(chains, sniChain(listed(names), listed(to), observed{}.tcpTo("a")))
			}
			var got []string
			for _, c := range uniqueChains(chains) {
				var to []string
				for _, r := range c.FilterChainMatch.PrefixRanges {
					to = append(to, fmt.Sprintf("%s/%d", r.AddressPrefix, r.PrefixLen.GetValue()))
				}
				got = append(got, orDash(to)+" "+orDash(c.FilterChainMatch.ServerNames))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A chain with many destinations is copied only where it is split, and then without them: else the cost is quadratic.
func TestManyDestinationsCostLittle(t *testing.T) {
	destinations := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255))
		}
		return out
	}
	allocations := func(n int) float64 {
		half := sniChain(nil, destinations(0, n/2), observed{}.tcpTo("a"))
		named := sniChain([]string{"a.b"}, destinations(n/2, n/2+n/4), observed{}.tcpTo("a"))
		whole := sniChain([]string{"a.b", "c.d"}, destinations(n/4, n), observed{}.tcpTo("b"))
		return testing.AllocsPerRun(1, func() { uniqueChains([]*listenerv3.FilterChain{half, named, whole}) })
	}
	if few, many := allocations(200), allocations(1600); many > 12*few {
		t.Errorf("200 destinations cost %v allocations, 1,600 %v: more than linear", few, many)
	}
}

func listed(s string) []string {
	if s == "-" {
		return nil
	}
	return strings.Split(s, ",")
}

func orDash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}
